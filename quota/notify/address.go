package notify

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// globalUnicast is all of IPv6 that is given out for the public internet. The rest is special, or
// nobody's yet, and may lead anywhere: to IPv4 by a translation, or into the own network.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// notPublic are the networks of IPv4, and those within globalUnicast, that are in IANA's registries of special-purpose
// addresses, besides those that package netip knows. Through some of them an address of another
// kind can be reached; others, such as those of AS112, are announced within many a network of its own.
var notPublic = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// isPublic reports whether an address is one of the public internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	if a.Is6() && !globalUnicast.Contains(a) {
		return false
	}
	return a.Zone() == "" && a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(notPublic, in)
}

// guard refuses connections to addresses that are neither public nor allowed. It is asked with the
// address itself, after names were resolved, for each connection: a name that resolves to
// another address the second time gains nothing.
func guard(allowed []netip.Prefix) func(ctx context.Context, network, address string, _ syscall.RawConn) error {
	allowed = slices.Clone(allowed)
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%q is not an address", address)
		}
		addr := to.Addr().Unmap()
		if !isPublic(addr) && !slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return fmt.Errorf("the address %v is not public", addr)
		}
		return nil
	}
}
