package keyfuncs

import (
	"iter"
	"strconv"
	"strings"
)

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

// bitsMark stands in [Func.Kind] between the kind of an address and how many bits of IPv6 count, if these are
// not 64. In keys the kind stands alone.
const bitsMark = "/"

// ipKind returns the kind of addresses of which so many bits count.
func ipKind(bits int) string {
	if bits == ipv6Bits {
		return kindIP
	}
	return kindIP + bitsMark + strconv.Itoa(bits)
}

// bitsOf returns how many bits of an IPv6 address count in keys of a kind, if it is one of addresses.
func bitsOf(kind string) (bits int, ok bool) {
	if kind == kindIP {
		return ipv6Bits, true
	}
	text, ok := strings.CutPrefix(kind, kindIP+bitsMark)
	if !ok {
		return 0, false
	}
	bits, err := strconv.Atoi(text)
	return bits, err == nil && validBits(bits) && ipKind(bits) == kind
}

func validBits(bits int) bool { return 32 <= bits && bits <= 128 }

// inKeys returns a kind as keys have it.
func inKeys(kind string) string {
	if _, ok := bitsOf(kind); ok {
		return kindIP
	}
	return kind
}

// kindsIn yields the kinds of the parts that a key of a Func's kind can have, which is "first(user,join(ip,route))".
func kindsIn(kind string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for kind != "" {
			end := strings.IndexAny(kind, "(),")
			if end < 0 {
				end = len(kind)
			}
			if end > 0 && !strings.HasPrefix(kind[end:], "(") && !yield(kind[:end]) {
				return
			}
			kind = kind[min(end+1, len(kind)):]
		}
	}
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
