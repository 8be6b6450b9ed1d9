package keyfuncs

import "net/netip"

// Framework takes the address that the web framework reports, by the framework's own
// settings, such as gin's SetTrustedProxies and echo's IPExtractor. It gives one answer
// throughout an application that has configured these with care. The address is parsed
// again, so that all its spellings have one key.
//
// It needs requests that are a [FrameworkClient], as those of the adapters for chi, echo,
// fiber and gin are. The address is unknown for other requests, and if the text is not
// an address (gin reports "<nil>" on a unix socket).
//
// # Security
//
// As safe as the framework and its settings.
//
// Not safe with the defaults. gin trusts every proxy until told otherwise. echo without
// IPExtractor believes the leftmost X-Forwarded-For. fiber's c.IP() believes
// X-Forwarded-For if ProxyHeader names it. A client then has a fresh bucket per
// request. Prefer the other strategies.
//
// Before going live, send X-Forwarded-For and X-Real-IP: 198.51.100.1 and log
// [Strategy.Addr]. It must not be that address.
func Framework() Strategy {
	return Strategy{name: "Framework", open: true, addr: func(r Request) (netip.Addr, bool) {
		framework, ok := As[FrameworkClient](r)
		if !ok {
			return netip.Addr{}, false
		}
		return parseAddr(framework.FrameworkIP())
	}}
}
