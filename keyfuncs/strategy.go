package keyfuncs

import (
	"errors"
	"fmt"
	"net/netip"
)

// Strategy finds the address of a client. Get one from a constructor. The zero Strategy
// is invalid, and Err says so.
//
//	in front of the process                    strategy
//	nothing                                    Peer
//	proxies with known addresses               TrustedProxies, or Forwarded for RFC 7239
//	a number of proxies, addresses unknown     HopCount
//	nginx that sets X-Real-IP                  XRealIP
//	Cloudflare, and maybe your proxies         Cloudflare
//	another CDN with a header of its own       SingleHeader
//
// No strategy guesses. A header is read only if it is named here and, except with
// HopCount, Framework and CustomAddr, only if the TCP peer is one of the named proxies.
// A request that came past the proxies has the address of its peer, whatever its
// headers say. If a proxy's header holds garbage or is missing, the address is unknown:
// no other header and no earlier entry is tried, since clients can write those. Only a
// chain without entries means that the proxy itself is the client.
//
// Addresses may be written bare, as "ip:port", "[v6]" or "[v6]:port". Before they are
// compared, IPv4 mapped into IPv6 becomes IPv4, and zones are dropped.
//
// Before going live, log Addr for some requests of your own, from an address that you
// know and that is none of the proxies', and once with a made-up X-Forwarded-For:
// 198.51.100.1. It must be your address each time.
//
// A Strategy is a small immutable value. It is safe to copy and for concurrent use.
type Strategy struct {
	name string
	// addr returns a normal address; without ok it may return anything. Nil if err is
	// set.
	addr func(Request) (netip.Addr, bool)
	// hop returns what is to be said about the proxy that sent r, for advice. Nil if no header
	// is read.
	hop func(r Request) hop
	// open is set if a client that reaches the process past all proxies can choose its
	// address.
	open bool
	err  error
}

var errZeroStrategy = errors.New("weblimit: keyfuncs: the zero Strategy finds no address, use a constructor such as keyfuncs.TrustedProxies")

// Addr returns the address of the client that sent r, for logs, metrics and decisions
// of your own. It reports false if the address is unknown or Err is not nil. The
// address is IPv4 or IPv6, never IPv4 mapped into IPv6, and has no zone.
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

// Err returns what is wrong with how s was built, such as HopCount(0), or nil. What is
// built with s reports this error, too.
func (s Strategy) Err() error {
	if s.addr == nil && s.err == nil {
		return errZeroStrategy
	}
	return s.err
}

// Peer takes the address of the TCP peer and reads no header. It is the default of
// [ClientIP]. A unix socket has no address.
//
// # Security
//
// Safe where clients connect to the process directly: the address of a TCP peer can't
// be forged.
//
// Not useful behind a proxy, which is the peer of all requests.
func Peer() Strategy { return Strategy{name: "Peer", addr: peerAddr} }

func peerAddr(r Request) (netip.Addr, bool) {
	addr := r.Peer()
	if !addr.Is4() { // as most are
		addr = normal(addr)
	}
	return addr, addr.IsValid()
}

// CustomAddr takes the address that f returns, such as one that your middleware has put
// into the context. f is called for each request, concurrently, and must be fast. The
// address is unknown if f reports false.
//
// Err reports a nil f.
//
// # Security
//
// As safe as f. Before f reads a header it must check who sent it, with [Request.Peer].
func CustomAddr(f func(Request) (netip.Addr, bool)) Strategy {
	if f == nil {
		return Strategy{err: errors.New("weblimit: keyfuncs.CustomAddr: no function")}
	}
	return Strategy{name: "CustomAddr", addr: func(r Request) (netip.Addr, bool) {
		addr, ok := f(r)
		return normal(addr), ok && addr.IsValid()
	}}
}

// onlyStrategy returns the given strategy, or Peer if there is none.
func onlyStrategy(constructor string, strategies []Strategy) (Strategy, error) {
	switch len(strategies) {
	case 0:
		return Peer(), nil
	case 1:
		return strategies[0], strategies[0].Err()
	}
	return Strategy{}, fmt.Errorf("weblimit: keyfuncs.%s: %d strategies, want one", constructor, len(strategies))
}
