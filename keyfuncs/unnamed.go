package keyfuncs

import "slices"

// Unnamed returns the header in which a proxy should have named the client of r, such as
// "X-Forwarded-For", if the key is an address that proxies name, r comes from one of the
// proxies, and it has no such header. It is "" otherwise. Then the proxy is not configured
// to send the header, or the request is its own, such as a health check. Limiters use it to
// give advice.
func (f Func) Unnamed(r Request) (header string) {
	for _, s := range f.strategies {
		if s.unnamed != nil {
			if header = s.unnamed(r); header != "" {
				return header
			}
		}
	}
	return ""
}

// ReadsProxies reports whether the key, or a part of it, is an address that proxies name in
// a header, so that [Func.Unnamed] can return one.
func (f Func) ReadsProxies() bool {
	return slices.ContainsFunc(f.strategies, func(s Strategy) bool { return s.unnamed != nil })
}

// unnamedBy is Strategy.unnamed for a header of trusted proxies.
func unnamedBy(trusted networks, header string) func(Request) string {
	return func(r Request) string {
		if addr, ok := peerAddr(r); ok && trusted.contains(addr) {
			return lacksHeader(r, header)
		}
		return ""
	}
}

// lacksHeader returns the header if r has no line of it.
func lacksHeader(r Request, header string) string {
	if _, has := r.Header(header, 0); has {
		return ""
	}
	return header
}
