package keyfuncs

import "strings"

// Kinds are part of stored keys: changing one empties all its buckets.
const (
	kindIP      = "ip"
	kindUser    = "user"
	kindTenant  = "tenant"
	kindAPIKey  = "apikey"
	kindRoute   = "route"
	kindMethod  = "method"
	kindHost    = "host"
	kindBasic   = "basic"
	kindAll     = "all"
	kindJoin    = "join"    // only as "join#": a Join shortened to its hash
	kindFirst   = "first"   // only in Func.Kind
	kindSecret  = "secret"  // only in Func.Kind, with what is hashed under a secret in parentheses
	kindKey     = "key"     // only as "key#": a key of the application, hashed
	kindInvalid = "invalid" // only as "invalid#": Encode with an invalid kind

	prefixHeader = "header."
	prefixCookie = "cookie."
	prefixParam  = "param."
	prefixQuery  = "query."
)

// isKind reports whether kind may stand before a value in a part.
func isKind(kind string) bool {
	switch kind {
	case kindAll, kindJoin, kindFirst, kindKey, kindInvalid:
		return false
	}
	if name, ok := strings.CutPrefix(kind, prefixHeader); ok && checkName("header", name) == "" {
		return name == strings.ToLower(name)
	}
	if name, ok := strings.CutPrefix(kind, prefixCookie); ok && checkName("cookie", name) == "" {
		return true
	}
	for _, prefix := range [...]string{prefixParam, prefixQuery} {
		if name, ok := strings.CutPrefix(kind, prefix); ok && checkName("parameter", name) == "" {
			return true
		}
	}
	return isCustomKind(kind)
}

// isCustomKind reports whether kind matches [a-z][a-z0-9.-]{0,31}.
func isCustomKind(kind string) bool {
	if kind == "" || len(kind) > 32 || kind[0] < 'a' || kind[0] > 'z' {
		return false
	}
	for i := range len(kind) {
		c := kind[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// namesSecret reports whether values of this kind are always hashed. In doubt they are:
// a kind too many costs readability, a kind too few leaks secrets.
func namesSecret(kind string) bool {
	kind = strings.ToLower(kind)
	for _, word := range [...]string{
		"auth", "cookie", "credential", "jwt", "key", "password", "secret", "session", "signature", "token",
	} {
		if strings.Contains(kind, word) {
			return true
		}
	}
	return false
}

// checkName returns why name can't be the name of a header, cookie or parameter (what) in a key, as
// the end of a sentence about it. It returns "" if it can.
func checkName(what, name string) string {
	if len(name) > maxName {
		return "is longer than 64 bytes"
	}
	switch {
	case !isToken(name):
		return "is not a " + what + " name"
	case strings.ContainsAny(name, "#|"):
		return "contains # or |, which separate the parts of a key"
	}
	return ""
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

// isTokenByte reports whether c is a tchar of RFC 9110.
func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
