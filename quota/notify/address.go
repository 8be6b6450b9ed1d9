package notify

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// notPublic are the networks that are special by RFC 6890 and later, besides those that package
// netip knows. Through some of them an address of another kind can be reached.
var notPublic = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
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
