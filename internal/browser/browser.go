// Package browser tells requests that a web page made a browser send from others, for handlers that
// only operators and programs may reach.
package browser

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// CanonicalHost returns a host in lower case, without brackets and the final dot.
func CanonicalHost(s string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(s, "[]"), "."))
}

// Host returns a host as operators write it, a name or an address without scheme and port, in canonical form, or false if it is
// none: no request would ever be for it.
func Host(s string) (canonical string, ok bool) {
	canonical = CanonicalHost(s)
	if _, err := netip.ParseAddr(canonical); err == nil {
		return canonical, true
	}
	if canonical == "" || len(canonical) > 253 {
		return "", false
	}
	for i := range len(canonical) {
		if c := canonical[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return "", false
		}
	}
	return canonical, true
}

// hostOf returns the host of a Host field, without its port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return CanonicalHost(host)
}

// Knows reports whether a Host field names one of the hosts, which are canonical.
func Knows(hosts []string, host string) bool { return slices.Contains(hosts, hostOf(host)) }

// IsLocal reports whether a Host field is an address or localhost. With DNS rebinding a page of
// another site reaches a server under a name of its own, and never under these.
func IsLocal(host string) bool {
	host = hostOf(host)
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// CanRebind reports whether a page of another site may reach a server under a Host field, by a name of its own that
// it has resolve to the server's address. Addresses, localhost and names without a dot are nobody's, and no browser leaves
// the field out.
func CanRebind(host string) bool {
	return host != "" && !IsLocal(host) && strings.Contains(hostOf(host), ".")
}

// FromOtherSite reports whether a page of another site, or of another host of the same site, made the
// browser send the request.
func FromOtherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// FromPage reports whether any page, of whatever origin, made a browser send the request.
func FromPage(r *http.Request) bool {
	if len(r.Header["Origin"]) > 0 {
		return true
	}
	site := r.Header["Sec-Fetch-Site"]
	return len(site) > 1 || len(site) == 1 && site[0] != "none" // none: the address was typed
}
