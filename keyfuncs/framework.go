package keyfuncs

import "net/netip"

// Framework reads the address that the web framework itself takes for the
// client's, by the framework's own settings, such as gin's SetTrustedProxies and
// echo's IPExtractor. It serves to have one answer throughout an app that has
// set these with care. What the framework says is parsed again, so that all
// spellings of an address have one key.
//
// It asks requests that have a method FrameworkIP() string; those of adapters
// whose framework has such an opinion do. The address is unknown with others, and
// when it is not an address ("<nil>" is what gin says on a unix socket).
//
// # Security
//
// As safe as the framework and its settings are, which by default is not: gin
// trusts every proxy until told otherwise; echo without IPExtractor believes the
// leftmost X-Forwarded-For; fiber's c.IP() believes X-Forwarded-For when
// ProxyHeader names it. Under these a client has a fresh bucket per request.
// Prefer the other strategies.
//
// Before going live, send X-Forwarded-For and X-Real-IP: 198.51.100.1 and log
// [Strategy.Addr], which must not be that.
func Framework() Strategy {
	return Strategy{name: "Framework", open: true, addr: func(r Request) (netip.Addr, bool) {
		framework, ok := r.(interface{ FrameworkIP() string })
		if !ok {
			return netip.Addr{}, false
		}
		return parseAddr(framework.FrameworkIP())
	}}
}
