package keyfuncs

import (
	"fmt"
	"net/netip"
)

// Lookup limits by what the client's address belongs to, such as its country or
// autonomous system, which f looks up in a database of yours. The key is kind, ":" and
// what f returns, such as "asn:64496". [Custom] says what a kind may be.
//
// The address is that of the peer, or of the given [Strategy]. It is IPv4 or IPv6, never
// IPv4 mapped into IPv6, in full and without a zone. f is called for each request,
// concurrently, and must be fast.
//
// The key is [Missing] if the address is unknown, and if f reports false or returns "".
//
// Err reports a kind that Custom would not take, a nil f, more than one strategy, and an
// invalid strategy.
//
// # Security
//
// As safe as the strategy. All clients of a country or provider share its bucket, and one
// of them can use it up: give each client a smaller limit beside it. Databases miss many
// addresses; decide what f returns for these.
func Lookup(kind string, f func(netip.Addr) (string, bool), strategy ...Strategy) Func {
	if problem := checkCustomKind(kind); problem != "" {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.Lookup: %s", problem)}
	}
	if f == nil {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.Lookup: kind %q has no function", kind)}
	}
	s, err := onlyStrategy("Lookup", strategy)
	if err != nil {
		return Func{err: err}
	}
	p := newEncoder(kind)
	return Func{kind: kind, derived: true, strategies: []Strategy{s}, read: func(dst []byte, r Request) ([]byte, Presence) {
		addr, ok := s.addr(r)
		if !ok {
			return dst, Missing
		}
		value, ok := f(addr)
		if !ok {
			return dst, Missing
		}
		return p.append(dst, value)
	}}
}
