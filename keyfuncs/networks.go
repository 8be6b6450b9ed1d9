package keyfuncs

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Names of networks, which stand for a list of CIDRs wherever one can be given:
// TrustedProxies(Loopback, "198.51.100.0/24"). In a configuration file they are
// "loopback", "private" and "cloudflare".
const (
	// Loopback is 127.0.0.0/8 and ::1, for a proxy on the same machine.
	Loopback = "loopback"
	// Private is 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 and fc00::/7. Trusting it
	// means trusting every machine, container and VPN client in these networks. It
	// contains neither loopback nor link-local addresses.
	Private = "private"
	// CloudflareRanges is the list that [SetCloudflareRanges] has set last, even after
	// this name was used. It contains Cloudflare's machines, and so the programs that
	// its customers run on them.
	CloudflareRanges = "cloudflare"
)

var namedNetworks = map[string][]string{
	Loopback: {"127.0.0.0/8", "::1/128"},
	Private:  {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"},
}

// networks is a set of addresses.
type networks struct {
	spans      spans
	cloudflare bool // Cloudflare's current ranges, too
}

func (n *networks) contains(addr netip.Addr) bool {
	return n.spans.contains(addr) || n.cloudflare && cloudflareRanges.Load().contains(addr)
}

// parseNetworks parses CIDRs, addresses and the names above. Its errors are meant to
// follow the name of a constructor.
func parseNetworks(cidrs []string) (networks, error) {
	var n networks
	if len(cidrs) == 0 {
		return n, errors.New("no networks, say which, such as keyfuncs.Private or \"192.0.2.0/24\"")
	}
	var all []span
	for _, cidr := range cidrs {
		if cidr == CloudflareRanges {
			n.cloudflare = true
			continue
		}
		list, ok := namedNetworks[cidr]
		if !ok {
			list = []string{cidr}
		}
		for _, cidr := range list {
			prefix, err := parseCIDR(cidr)
			if err != nil {
				return networks{}, err
			}
			all = append(all, spanOf(prefix))
		}
	}
	n.spans = merge(all)
	return n, nil
}

// parseCIDR parses a prefix, or an address as a network of one.
func parseCIDR(s string) (netip.Prefix, error) {
	var prefix netip.Prefix
	var err error
	if strings.Contains(s, "/") {
		prefix, err = netip.ParsePrefix(s)
	} else {
		var addr netip.Addr
		if addr, err = netip.ParseAddr(s); addr.Zone() == "" {
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
	}
	if err != nil || !prefix.IsValid() {
		return netip.Prefix{}, fmt.Errorf("%.60q is not a CIDR, want one such as \"192.0.2.0/24\"", s)
	}
	// Addresses are unmapped before they are compared, so networks are, too.
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	// Most likely a slip: one machine was meant, or another network.
	if masked := prefix.Masked(); masked != prefix {
		return netip.Prefix{}, fmt.Errorf("%q is an address and not a network, want %q or %q", s, masked, prefix.Addr())
	}
	return prefix, nil
}

// spans are sorted ranges of addresses that neither overlap nor touch. IPv4 comes
// before IPv6.
type spans []span

type span struct{ first, last netip.Addr }

// contains takes a normal address; the zero Addr is in no span.
func (s spans) contains(addr netip.Addr) bool {
	i, found := slices.BinarySearchFunc(s, addr, func(s span, addr netip.Addr) int { return s.first.Compare(addr) })
	return found || i > 0 && addr.Compare(s[i-1].last) <= 0
}

// coverAll reports whether every IPv4 or every IPv6 address is in s.
func (s spans) coverAll() bool {
	return slices.ContainsFunc(s, func(s span) bool {
		return s.first.IsUnspecified() && !s.last.Next().IsValid()
	})
}

func spanOf(p netip.Prefix) span {
	last := p.Addr().AsSlice()
	for i := range last {
		// n is how many bits of this byte belong to the network.
		switch n := p.Bits() - 8*i; {
		case n <= 0:
			last[i] = 0xff
		case n < 8:
			last[i] |= 0xff >> n
		}
	}
	end, _ := netip.AddrFromSlice(last)
	return span{p.Addr(), end}
}

func merge(all []span) spans {
	slices.SortFunc(all, func(a, b span) int {
		return cmp.Or(a.first.Compare(b.first), a.last.Compare(b.last))
	})
	var merged spans
	for _, next := range all {
		if len(merged) > 0 {
			end := &merged[len(merged)-1].last
			// Next of the last IPv4 address is the zero Addr, which sorts before all
			// others.
			if next.first.Compare(*end) <= 0 || next.first == end.Next() {
				if end.Less(next.last) {
					*end = next.last
				}
				continue
			}
		}
		merged = append(merged, next)
	}
	return merged
}
