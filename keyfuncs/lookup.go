package keyfuncs

import (
	"fmt"
	"net/netip"
)

// Lookup limits by what the address of a client belongs to, such as its country
// or autonomous system, which f finds in a database of yours. The key is kind,
// ":" and what f returns, "asn:64496", as in [Custom], which also says what a
// kind may be.
//
// The address is the peer's, or what the one [Strategy] says. It is IPv4 or
// IPv6, never one mapped into the other, in full and without a zone. f runs on
// every request, maybe on many at once, and must not block.
//
// A request has no key when its address is unknown, and when f reports false or
// returns "".
//
// Err reports a kind that Custom would not take, a nil f, and more than one
// strategy or an invalid one.
//
// # Security
//
// As safe as the strategy. A bucket of a country or a provider is shared by all
// of its people, so one can use it up: give each client a smaller limit beside
// it. Addresses that no database knows are many; decide what they get.
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
	p := newPart(kind)
	return Func{kind: kind, strategies: []Strategy{s}, read: func(dst []byte, r Request) ([]byte, Presence) {
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
