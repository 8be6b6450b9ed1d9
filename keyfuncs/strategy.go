package keyfuncs

import (
	"errors"
	"fmt"
	"net/netip"
)

// Strategy says where the address of a client is to be read. Get one from a
// constructor; the zero Strategy is invalid and Err says so.
//
//	in front of the process                    strategy
//	nothing                                    Peer
//	proxies with known addresses               TrustedProxies, or Forwarded for RFC 7239
//	a number of proxies, addresses unknown     HopCount
//	nginx that sets X-Real-IP                  XRealIP
//	Cloudflare, and maybe proxies of yours     Cloudflare
//	another CDN with a header of its own       SingleHeader
//
// None guesses: a header is read only when it is named here and, but for
// HopCount, Framework and CustomAddr, only when the TCP peer is one of the
// proxies named here. A request that came past them has its peer's address,
// whatever its headers say. Garbage where a proxy should have written an address
// leaves it unknown; no other header and no earlier entry is tried, since those
// are what a client can write. So does a missing header, but a chain without
// entries means that the proxy itself called.
//
// An address is read bare, as "ip:port", "[v6]" or "[v6]:port". IPv4 mapped into
// IPv6 is IPv4, and zones are dropped, before anything is compared.
//
// Before going live, log Addr for some requests of your own, from an address
// that you know, once with X-Forwarded-For: 198.51.100.1 made up: it must be
// your address each time.
//
// A Strategy is a small immutable value, safe to copy and for concurrent use.
type Strategy struct {
	name string
	// addr gives a normal address, or anything without ok. Nil when err is set.
	addr func(Request) (netip.Addr, bool)
	// open is set when a client that reaches the process past all proxies may
	// choose its address.
	open bool
	err  error
}

var errZeroStrategy = errors.New("weblimit: keyfuncs: the zero Strategy reads no address, use a constructor such as keyfuncs.TrustedProxies")

// Addr is the address of the client that sent r, for logs, metrics and decisions
// of your own. It reports false when the address is unknown or Err is not nil.
// It is IPv4 or IPv6, never one mapped into the other, and has no zone.
func (s Strategy) Addr(r Request) (netip.Addr, bool) {
	if s.addr == nil {
		return netip.Addr{}, false
	}
	addr, ok := s.addr(r)
	if !ok {
		return netip.Addr{}, false
	}
	return addr, true
}

// Err is what is wrong with how s was built, such as HopCount(0), and nil when
// nothing is. Whatever s is handed to reports it too.
func (s Strategy) Err() error {
	if s.addr == nil && s.err == nil {
		return errZeroStrategy
	}
	return s.err
}

// Peer reads the address of the TCP peer and no header; it is what [ClientIP]
// does without arguments. A unix socket has none.
//
// # Security
//
// Safe where clients connect to the process directly: a TCP peer can't be
// forged. Not useful behind a proxy, which is then the peer of everybody.
func Peer() Strategy { return Strategy{name: "Peer", addr: peerAddr} }

func peerAddr(r Request) (netip.Addr, bool) {
	addr := r.Peer()
	if !addr.Is4() { // as most are
		addr = normal(addr)
	}
	return addr, addr.IsValid()
}

// CustomAddr reads what f finds, such as the address that a middleware of yours
// has put into the context. f runs on every request, maybe on many at once, and
// must not block.
//
// Err reports a nil f.
//
// # Security
//
// As safe as f is. Where f reads a header it must first see who sent it:
// [Request] gives the peer.
func CustomAddr(f func(Request) (netip.Addr, bool)) Strategy {
	if f == nil {
		return Strategy{err: errors.New("weblimit: keyfuncs.CustomAddr: no function")}
	}
	return Strategy{name: "CustomAddr", addr: func(r Request) (netip.Addr, bool) {
		addr, ok := f(r)
		return normal(addr), ok && addr.IsValid()
	}}
}

// onlyStrategy is the one that was given, or Peer. constructor is what for.
func onlyStrategy(constructor string, strategies []Strategy) (Strategy, error) {
	switch len(strategies) {
	case 0:
		return Peer(), nil
	case 1:
		return strategies[0], strategies[0].Err()
	}
	return Strategy{}, fmt.Errorf("weblimit: keyfuncs.%s: %d strategies, want one", constructor, len(strategies))
}
