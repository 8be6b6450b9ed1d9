package keyfuncs

import (
	"fmt"
	"net/netip"
)

const xForwardedFor = "X-Forwarded-For"

// TrustedProxies reads X-Forwarded-For, to which each proxy appends the address
// that it was called from: TrustedProxies("10.0.0.0/8"), or
// TrustedProxies(Loopback, Private). From the right, addresses in the
// given networks are passed over; the first other one is the client. When all
// are in them, the leftmost is.
//
// The TCP peer is the rightmost entry: when it is not in the networks it is the
// client, and the header is not read. Several lines of the header are one list,
// in their order.
//
// The address is unknown when an entry on the way is not an address ("unknown",
// an empty one), when more than 32 entries are trusted, and on a unix socket.
//
// Err reports a network that is none, no networks, and networks that hold all of
// IPv4 or IPv6: who trusts everybody lets clients choose their address.
//
// # Security
//
// Safe when each proxy in the networks appends to X-Forwarded-For or replaces
// it, as nginx with $proxy_add_x_forwarded_for, Envoy, HAProxy with option
// forwardfor, Caddy, Traefik and the cloud load balancers do. Clients may send
// what they like: it stays to the left of their own address.
//
// Not safe when a proxy passes the header on unchanged (nginx without
// proxy_set_header), and when clients come from within the networks, such as
// tenants in the same VPC: they are taken for proxies and may name others. List
// the proxies, and not all of 10.0.0.0/8, where that matters. The ranges of a CDN
// hold clients as well where its customers can run code: a Cloudflare Worker
// calls from Cloudflare's. Use [Cloudflare] for these.
//
// Too few networks make all clients share the bucket of the proxy that is
// missing; nobody gains one. See [Strategy] for how to check.
func TrustedProxies(cidrs ...string) Strategy {
	return chainStrategy("TrustedProxies", xForwardedFor, cutEntry, cidrs)
}

// HopCount reads X-Forwarded-For where there are n proxies in front of the
// process, whatever their addresses: 1 for a load balancer, 2 for a CDN and a
// load balancer. The client is the n-th entry from the right. Several lines of
// the header are one list, in their order. It works on a unix socket too.
//
// The address is unknown when there are fewer entries, and when one of the n is
// not an address.
//
// Err reports n below 1 and above 32.
//
// # Security
//
// Prefer [TrustedProxies] wherever the proxies' addresses are known: HopCount
// does not look at the peer. Safe when each request passes exactly n proxies,
// each appends its entry, and a firewall lets nobody past them.
//
// Not safe when a client can reach the process, or one of the inner proxies,
// directly: what it writes into the header is then its address. The same when n
// is too high. When n is too low, all clients share the bucket of a proxy.
//
// Before going live, send X-Forwarded-For: 198.51.100.1 from an address that you
// know and log [Strategy.Addr]. Your address: right. 198.51.100.1, or unknown
// without the header: n is too high. A proxy's: too low. Check again when the
// way to the process changes.
func HopCount(n int) Strategy {
	if n < 1 || n > maxHops {
		return Strategy{err: fmt.Errorf("weblimit: keyfuncs.HopCount: %d proxies, want 1 to %d", n, maxHops)}
	}
	return Strategy{name: "HopCount", open: true, addr: func(r Request) (addr netip.Addr, ok bool) {
		c := newChain(r, xForwardedFor, cutEntry)
		for range n {
			entry, _ := c.next()
			if addr, ok = parseAddr(entry); !ok {
				return netip.Addr{}, false
			}
		}
		return addr, true
	}}
}
