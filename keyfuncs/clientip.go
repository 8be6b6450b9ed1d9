package keyfuncs

import (
	"errors"
	"fmt"
)

// ClientIP limits each client by its address: IPv4 in full, IPv6 by its /64. The
// key is "ip:192.0.2.7" or "ip:2001:db8:0:1::/64".
//
//	ClientIP()                                  // the TCP peer; no header is read
//	ClientIP(TrustedProxies("10.0.0.0/8"))      // behind proxies of yours
//	ClientIP(Cloudflare(), IPv6Prefix(56))
//
// It takes at most one [Strategy], which says where the address is read and
// defaults to [Peer], and at most one [IPv6Prefix].
//
// What counts are the bits and not how they are written: ::ffff:192.0.2.7 is
// IPv4, 2001:db8::192.0.2.7 is IPv6, and a zone is ignored. Addresses in
// 64:ff9b::/96, where a translator has put the IPv4 address of the client into
// an IPv6 one, are IPv6 like the rest and so share one bucket.
//
// A request whose address is unknown has no key: over a unix socket, and where
// the strategy finds garbage.
//
// Err reports what is wrong with an option, and more than one of a sort.
//
// # Security
//
// Without a strategy it is safe wherever clients connect to the process
// directly: nothing a client sends changes its key, and a TCP peer can't be
// forged from elsewhere.
//
// It is not useful then behind a reverse proxy, load balancer or CDN: the peer
// is the proxy there, and all clients share its bucket. To see which it is, log
// the key of a few requests before going live: one address for all of them means
// a proxy. [Strategy] says which one to choose.
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
	if bits < 32 || bits > 128 {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.IPv6Prefix: %d bits, want 32 to 128", bits)}
	}
	return Func{kind: kindIP, strategies: []Strategy{strategy}, read: func(dst []byte, r Request) ([]byte, Presence) {
		addr, ok := strategy.addr(r)
		if !ok {
			return dst, Missing
		}
		return appendAddr(dst, addr, bits), Present
	}}
}

// IPOption is what [ClientIP] takes: a [Strategy] or [IPv6Prefix].
type IPOption interface{ applyTo(*ipConfig) }

// ipConfig is what was asked for, as often as it was.
type ipConfig struct {
	strategies []Strategy
	bits       []int
}

func (s Strategy) applyTo(c *ipConfig) { c.strategies = append(c.strategies, s) }

type ipv6Prefix int

func (p ipv6Prefix) applyTo(c *ipConfig) { c.bits = append(c.bits, int(p)) }

// IPv6Prefix says how many bits of an IPv6 address name a client, 32 to 128.
// Defaults to 64. IPv4 always counts in full.
//
// Fewer bits put more customers of a provider into one bucket; 56 and 48 are what
// most give to a home and to a company. More than 64 give whoever has a /64, and
// everybody has, as many buckets as there are networks in it: 128 is a free pass
// unless addresses are handed out one by one, as in a network of your own.
func IPv6Prefix(bits int) IPOption { return ipv6Prefix(bits) }
