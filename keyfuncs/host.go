package keyfuncs

import "strings"

// Host limits by the host that the request asks for, such as the tenant's domain. The key is
// "host:shop.example", in lower case, without the port and without the dot at the end of a name.
// It is hashed if it is long or odd (see the package comment). X-Forwarded-Host is not read.
//
// The key is [Missing] if the request names no host. It is [Ambiguous] if there is a second line
// of Host, where the server accepts that.
//
// # Security
//
// Safe if your server or proxy answers for known hosts only.
//
// Not safe otherwise: the client writes the host, so it has a fresh bucket for each name that it
// makes up, and can use up the bucket of any host. Combine it with a limit by [ClientIP].
func Host() Func {
	f := single(newEncoder(kindHost), "Host header", func(r Request) (string, Presence) {
		value, p := readHeader(r, "Host")
		if p != Present {
			return "", p
		}
		return present(hostname(value))
	})
	f.lack = &lack{what: "Host header"}
	return f
}

// hostname returns a host without port and final dot, in lower case. Lower case allocates if
// there are capitals.
func hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
