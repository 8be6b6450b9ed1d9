package keyfuncs

import (
	"fmt"
	"slices"
)

// FromCIDR holds for requests whose TCP peer is in one of these networks:
//
//	FromCIDR("192.0.2.0/24", "2001:db8::/32", Loopback)
//
// It compares the address that connected to the process, whatever strategy a limit uses, and
// does not hold on a unix socket. Behind a proxy that is the proxy's: to exempt clients by
// their own address, use [Strategy.FromCIDR] of the strategy that [ClientIP] has:
//
//	TrustedProxies("127.0.0.1").FromCIDR("192.0.2.0/24")
//
// Err reports an invalid network, no networks, and networks that contain all of IPv4 or
// IPv6: as a bypass they would exempt everybody.
//
// # Security
//
// Safe where clients connect to the process directly.
//
// Not safe behind a proxy, which is then the peer: FromCIDR("10.0.0.0/8") behind a load
// balancer in that network exempts the whole world, and so does FromCIDR(Loopback) behind a
// proxy on the same machine. Limiters log advice when they see such a request exempt.
func FromCIDR(cidrs ...string) Condition { return fromCIDR("FromCIDR", Peer(), cidrs) }

// FromPeer reports whether c or a part of it is [FromCIDR], and the TCP peer of r is in its
// networks. Limiters use it to give advice.
func (c Condition) FromPeer(r Request) bool {
	addr, ok := peerAddr(r)
	return ok && slices.ContainsFunc(c.peers, func(n networks) bool { return n.contains(addr) })
}

// FromCIDR holds for requests whose client address, as s finds it, is in one of these
// networks:
//
//	TrustedProxies(Private).FromCIDR("192.0.2.0/24")
//
// It does not hold if the address is unknown.
//
// Err reports the error of s, and what [FromCIDR] reports. It also reports a
// strategy that does not check the peer before it believes a header: HopCount,
// Framework, and SingleHeader from everywhere. A client that finds a way past the
// proxies could choose its address, and would be exempt by one header line. If nothing
// can come past your proxies, [Matches] and [Strategy.Addr] do the same.
//
// # Security
//
// As safe as the strategy. With [TrustedProxies], the exempt networks should not
// overlap with those of the proxies: if a whole chain is trusted its leftmost address
// counts, and any machine in the proxies' networks may have written it.
func (s Strategy) FromCIDR(cidrs ...string) Condition {
	return fromCIDR("Strategy.FromCIDR", s, cidrs)
}

func fromCIDR(constructor string, s Strategy, cidrs []string) Condition {
	if err := s.Err(); err != nil {
		return Condition{err: err}
	}
	if s.open {
		return Condition{err: fmt.Errorf("weblimit: keyfuncs.%s: %s does not check the peer, so clients could choose their network", constructor, s.name)}
	}
	networks, err := parseNetworks(cidrs)
	if err != nil {
		return Condition{err: fmt.Errorf("weblimit: keyfuncs.%s: %w", constructor, err)}
	}
	if networks.spans.coverAll() {
		return Condition{err: fmt.Errorf("weblimit: keyfuncs.%s: these networks contain every address, so everybody would be exempt; name the networks, or use Matches if that is meant", constructor)}
	}
	c := Condition{ask: yesOrNo(func(r Request) bool {
		addr, ok := s.addr(r)
		return ok && networks.contains(addr)
	})}
	if s.name == Peer().name {
		c.peers = append(c.peers, networks)
	}
	return c
}
