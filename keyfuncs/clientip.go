package keyfuncs

import (
	"errors"
	"fmt"
)

// ClientIP limits each client by its address: IPv4 in full, IPv6 by its /64. The key is
// "ip:192.0.2.7" or "ip:2001:db8:0:1::/64".
//
//	ClientIP()                                  // the TCP peer; no header is read
//	ClientIP(TrustedProxies("10.0.0.0/8"))      // behind your proxies
//	ClientIP(Cloudflare(), IPv6Prefix(56))
//
// It takes at most one [Strategy], which finds the address and defaults to [Peer], and
// at most one [IPv6Prefix].
//
// The bits of an address count, and not its spelling: ::ffff:192.0.2.7 is IPv4,
// 2001:db8::192.0.2.7 is IPv6, and zones are ignored. Addresses in 64:ff9b::/96, into
// which a translator has put the client's IPv4 address, are IPv6 like the rest and so
// share one bucket.
//
// The key is [Missing] if the address is unknown: over a unix socket, and where the
// strategy finds garbage.
//
// Err reports an invalid option, and more than one option of a kind.
//
// # Security
//
// Without a strategy it is safe wherever clients connect to the process directly:
// nothing a client sends changes its key, and the address of a TCP peer can't be
// forged.
//
// It is not useful behind a reverse proxy, load balancer or CDN without a strategy: the
// peer is the proxy, and all clients share its bucket. [Strategy] says which strategy
// to choose.
//
// Before going live, log the key of a few requests: one address for all of them means a
// proxy.
func ClientIP(options ...IPOption) Func {
	var c ipConfig
	for _, o := range options {
		if o == nil {
			return Func{err: errors.New("weblimit: keyfuncs.ClientIP: an option is nil")}
		}
		o.applyTo(&c)
	}
	strategy, err := onlyStrategy("ClientIP", c.strategies)
	if err != nil {
		return Func{err: err}
	}
	bits := ipv6Bits
	switch len(c.bits) {
	case 0:
	case 1:
		bits = c.bits[0]
	default:
		return Func{err: fmt.Errorf("weblimit: keyfuncs.ClientIP: %d options IPv6Prefix, want one", len(c.bits))}
	}
	if !validBits(bits) {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.IPv6Prefix: %d bits, want 32 to 128", bits)}
	}
	return Func{kind: ipKind(bits), strategies: []Strategy{strategy}, read: func(dst []byte, r Request) ([]byte, Presence) {
		addr, ok := strategy.addr(r)
		if !ok {
			return dst, Missing
		}
		return appendAddr(dst, addr, bits), Present
	}}
}

// IPOption is what [ClientIP] takes: a [Strategy] or [IPv6Prefix].
type IPOption interface{ applyTo(*ipConfig) }

// ipConfig collects the options, so that repeated ones are noticed.
type ipConfig struct {
	strategies []Strategy
	bits       []int
}

func (s Strategy) applyTo(c *ipConfig) { c.strategies = append(c.strategies, s) }

type ipv6Prefix int

func (p ipv6Prefix) applyTo(c *ipConfig) { c.bits = append(c.bits, int(p)) }

// IPv6Prefix sets how many bits of an IPv6 address identify a client, 32 to 128.
// Defaults to 64. IPv4 always counts in full.
//
// Fewer bits put more customers of a provider into one bucket; most providers give 56
// bits to a home and 48 to a company.
//
// # Security
//
// More than 64 bits are not safe on the internet: every customer has a /64, and so as
// many buckets as there are networks in it. With 128 bits that is a free pass, unless
// addresses are assigned one by one, as in a network of your own.
func IPv6Prefix(bits int) IPOption { return ipv6Prefix(bits) }
