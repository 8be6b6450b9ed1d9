package keyfuncs

import (
	"net/netip"
	"slices"
)

// What a strategy can say about the proxy that sent a request. Limiters use it to give advice.

// hop is the machine that named the client of a request in a header, or should have.
type hop struct {
	header string     // in which it names the client
	addr   netip.Addr // zero on a unix socket
	listed bool       // as a proxy
}

// Unnamed returns the header in which a proxy should have named the client of r, such as
// "X-Forwarded-For", if the key is an address that proxies name, r comes from one of the
// proxies, and it has no such header. It is "" otherwise. Then the proxy is not configured
// to send the header, or the request is its own, such as a health check. Limiters use it to
// give advice.
func (f Func) Unnamed(r Request) (header string) {
	for _, s := range f.strategies {
		if s.hop == nil {
			continue
		}
		if h := s.hop(r); h.listed && !hasHeader(r, h.header) {
			return h.header
		}
	}
	return ""
}

// Named returns the header in which a proxy named the client of r, if the key is an address
// that proxies name and r comes from one of the proxies, with that header. It is "" otherwise.
// Limiters use it to give advice.
func (f Func) Named(r Request) (header string) {
	for _, s := range f.strategies {
		if s.hop == nil {
			continue
		}
		if h := s.hop(r); h.listed && hasHeader(r, h.header) {
			return h.header
		}
	}
	return ""
}

// Unlisted returns the address that the key takes for the client's, if proxies name clients
// in the header and that address may be a proxy that is not listed: a private, shared,
// loopback or link-local one. It is the zero Addr on a unix socket, where no client is found.
// A request that came through listed proxies is reported only if the header has a further
// entry. The header can be missing otherwise. Limiters use it to give advice.
func (f Func) Unlisted(r Request) (header string, addr netip.Addr, ok bool) {
	for _, s := range f.strategies {
		if s.hop == nil {
			continue
		}
		if h := s.hop(r); !h.listed && (!h.addr.IsValid() || isLocal(h.addr)) {
			return h.header, h.addr, true
		}
	}
	return "", netip.Addr{}, false
}

// ReadsProxies reports whether the key, or a part of it, is an address that proxies name in
// a header, so that [Func.Unnamed] can return one.
func (f Func) ReadsProxies() bool {
	return slices.ContainsFunc(f.strategies, func(s Strategy) bool { return s.hop != nil })
}

// hopBy is Strategy.hop for a header that trusted peers set.
func hopBy(trusted networks, header string) func(Request) hop {
	return func(r Request) hop {
		addr, ok := peerAddr(r)
		return hop{header: header, addr: addr, listed: ok && trusted.contains(addr)}
	}
}

// chainHop is Strategy.hop for a header to which trusted proxies append.
func chainHop(trusted networks, header string, cut cutter) func(Request) hop {
	byPeer := hopBy(trusted, header)
	return func(r Request) hop {
		h := byPeer(r)
		if !h.listed {
			return h
		}
		c := newChain(r, header, cut)
		for range maxHops {
			entry, _ := c.next()
			addr, ok := parseAddr(entry)
			switch {
			case !ok:
				return h
			case trusted.contains(addr):
				continue
			}
			if _, further := c.next(); further && isLocal(addr) {
				h.addr, h.listed = addr, false
			}
			return h
		}
		return h
	}
}

// shared is the address space between customers and their provider (RFC 6598), which some
// clouds give to pods and load balancers.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// isLocal reports whether an address is of no client on the internet.
func isLocal(addr netip.Addr) bool {
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || shared.Contains(addr)
}

func hasHeader(r Request, header string) bool {
	_, has := r.Header(header, 0)
	return has
}
