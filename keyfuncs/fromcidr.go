package keyfuncs

import "fmt"

// FromCIDR holds for requests whose TCP peer is in one of these networks:
// FromCIDR("192.0.2.0/24", "2001:db8::/32", Loopback). Behind a proxy use
// [Strategy.FromCIDR]. It does not hold for a unix socket.
//
// Err reports a network that is none, and no networks.
//
// # Security
//
// Safe where clients connect to the process directly. Behind a proxy it looks at
// the proxy: FromCIDR("10.0.0.0/8") behind a load balancer in that network
// exempts the whole world.
func FromCIDR(cidrs ...string) Condition { return fromCIDR("FromCIDR", Peer(), cidrs) }

// FromCIDR holds for requests whose client, as s finds it, is in one of these
// networks: TrustedProxies(Private).FromCIDR("192.0.2.0/24"). It does not hold
// when the address is unknown.
//
// Err reports what s's does, a network that is none, no networks, and a strategy
// that does not look at the peer before it believes a header: HopCount,
// Framework, and SingleHeader from everywhere. A client that finds a way past
// the proxies has then any address it likes, and would be exempt by one line of
// a header. Where nothing can come past them, [Matches] and [Strategy.Addr] do
// the same.
//
// # Security
//
// As safe as the strategy. With [TrustedProxies] the networks that are exempt
// and those of the proxies should have nothing in common: when all of a chain is
// trusted its leftmost address counts, which a machine in them may have written.
func (s Strategy) FromCIDR(cidrs ...string) Condition {
	return fromCIDR("Strategy.FromCIDR", s, cidrs)
}

func fromCIDR(constructor string, s Strategy, cidrs []string) Condition {
	if err := s.Err(); err != nil {
		return Condition{err: err}
	}
	if s.open {
		return Condition{err: fmt.Errorf("weblimit: keyfuncs.%s: %s does not look at the peer, so that clients may choose their network", constructor, s.name)}
	}
	networks, err := parseNetworks(cidrs)
	if err != nil {
		return Condition{err: fmt.Errorf("weblimit: keyfuncs.%s: %w", constructor, err)}
	}
	return Condition{ask: yesOrNo(func(r Request) bool {
		addr, ok := s.addr(r)
		return ok && networks.contains(addr)
	})}
}
