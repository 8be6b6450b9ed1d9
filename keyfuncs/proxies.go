package keyfuncs

import (
	"fmt"
	"net/netip"
)

const xForwardedFor = "X-Forwarded-For"

// TrustedProxies reads X-Forwarded-For, to which each proxy appends the address that
// called it:
//
//	TrustedProxies("10.0.0.0/8")
//	TrustedProxies(Loopback, Private)
//
// From the right, addresses in the given networks are skipped. The first other address
// is the client. If all are in the networks, the leftmost is the client.
//
// The TCP peer counts as the rightmost entry: if it is not in the networks it is the
// client, and the header is not read. Several lines of the header are one list, in
// their order.
//
// The address is unknown if an entry on the way is not an address ("unknown", or
// empty), if more than 32 entries are trusted, and on a unix socket.
//
// Err reports an invalid network, no networks, and networks that contain all of IPv4 or
// IPv6: with everybody trusted, clients choose their address.
//
// # Security
//
// Safe if each proxy in the networks appends to X-Forwarded-For or replaces it. nginx
// does with $proxy_add_x_forwarded_for, HAProxy with option forwardfor, and so do
// Envoy, Caddy, Traefik and the load balancers of the clouds. What a client sends stays
// to the left of its own address.
//
// Not safe if a proxy passes the header on unchanged, as nginx does without
// proxy_set_header. Not safe either if clients connect from the networks, such as
// tenants of one VPC: they are taken for proxies and can name any address. List the
// proxies then, and not all of 10.0.0.0/8. A CDN's ranges contain clients if its
// customers can run code there: a Cloudflare Worker calls from Cloudflare's ranges. Use
// [Cloudflare] for those.
//
// If a proxy is missing from the networks, all clients share that proxy's bucket, and
// no client gains one. Limiters log advice if its address is private or loopback, and
// can't tell it from a client otherwise. See [Strategy] for how to check before going live.
func TrustedProxies(cidrs ...string) Strategy {
	return chainStrategy("TrustedProxies", xForwardedFor, cutEntry, cidrs)
}

// HopCount reads X-Forwarded-For behind n proxies whose addresses are not known: 1 for
// a load balancer, 2 for a CDN and a load balancer. The client is entry n from the
// right. Several lines of the header are one list, in their order. It works on a unix
// socket, too.
//
// The address is unknown if there are fewer entries, or one of the n is not an address.
//
// Err reports n below 1 and above 32.
//
// # Security
//
// Prefer [TrustedProxies] if the proxies' addresses are known: HopCount does not check
// the peer.
//
// Safe if each request passes exactly n proxies, each of them appends its entry, and a
// firewall lets nobody past them.
//
// Not safe if a client can reach the process, or an inner proxy, directly, or if n is
// too high: what the client writes into the header is then its address. If n is too
// low, all clients share the bucket of a proxy.
//
// Before going live, send X-Forwarded-For: 198.51.100.1 from an address that you know
// and log [Strategy.Addr]. Your address: n is right. 198.51.100.1, or unknown without
// the header: n is too high. A proxy's address: n is too low. Check again when the
// proxies change.
func HopCount(n int) Strategy {
	if n < 1 || n > maxHops {
		return Strategy{err: fmt.Errorf("weblimit: keyfuncs.HopCount: %d proxies, want 1 to %d", n, maxHops)}
	}
	return Strategy{name: "HopCount", open: true, hop: func(Request) hop { return hop{header: xForwardedFor, listed: true} }, addr: func(r Request) (addr netip.Addr, ok bool) {
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
