package keyfuncs

import (
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

const (
	maxKey   = 256 // bytes of a whole key
	maxValue = 64  // bytes of a value that stays readable
	maxName  = 64  // bytes of a header or cookie name
)

// Encode returns the key of one part, for code outside HTTP such as jobs and consumers
// that share a bucket with requests. The kind is that of [Func.Kind]:
//
//	Encode("user", "alice")           // User, for "alice"
//	Encode("apikey", secret)          // APIKey
//	Encode("header.x-tenant", "42")   // Header("X-Tenant")
//	Encode("param.id", "42")          // Param("id")
//	Encode("ip", "2001:db8::1")       // ClientIP()
//	Encode("ip/56", "2001:db8::1")    // ClientIP(IPv6Prefix(56))
//	Encode("ip", "2001:db8::/56")     // the same, by its network
//
// For several parts, as in [Join], see [EncodeJoin]. Encode does not know the secret of
// [Func.WithSecret]: [Func.Conceal] does.
//
// The value may be any string; the package comment says how it is encoded. An empty
// value gives "", since it has no key. So does a value of whitespace, for kinds whose
// values are trimmed. A kind that no Func of one part can have, such as "a:b" or
// "join", gives a key that begins with "invalid#" and is never that of another kind.
func Encode(kind, value string) string {
	if value == "" {
		return ""
	}
	bits, isIP := bitsOf(kind)
	if isIP {
		kind = kindIP
	}
	if !isKind(kind) {
		// Quoting marks where the kind ends.
		return string(appendHashed(nil, kindInvalid, bytesOf(strconv.Quote(kind)+value)))
	}
	dst := make([]byte, 0, len(kind)+1+maxValue)
	switch {
	case isIP:
		if addr, err := netip.ParseAddr(value); err == nil {
			return string(appendAddr(dst, addr, bits))
		}
	case kind == kindMethod:
		value = foldMethod(value)
	case kind == kindHost:
		value = hostname(trimValue(value))
	case kind == kindAPIKey || isRead(kind):
		value = trimValue(value)
	}
	dst, _ = newEncoder(kind).append(dst, value)
	return string(dst)
}

// EncodeJoin returns the key of [Join], and of a limit By several keys, from the keys of its
// parts in the same order:
//
//	EncodeJoin(Encode("user", "alice"), Encode("route", "/orders/:id")) // Join(User, Route)
//
// It is "" if one of the parts is, since then there is no key.
func EncodeJoin(keys ...string) string {
	if slices.Contains(keys, "") {
		return ""
	}
	whole := strings.Join(keys, "|")
	if len(keys) > 1 && len(whole) > maxKey {
		return string(appendHashed(nil, kindJoin, bytesOf(whole)))
	}
	return whole
}

// isRead reports whether values of a kind are read from a request, and so are trimmed.
func isRead(kind string) bool {
	for _, prefix := range [...]string{prefixHeader, prefixCookie, prefixParam, prefixQuery} {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}

// AppendKey appends a key that an application names itself, such as "tenant:42". A key of
// 1 to 256 bytes of printable ASCII without "{" and "}" is appended unchanged, unless it
// begins with "key#". Any other key is appended as "key#" and its hash. So different keys
// stay different, and every result is bounded and safe to store. The key of a Func is
// always appended unchanged, and so shares the Func's bucket.
//
// An empty key is a mistake of the caller. It is hashed, and so has one bucket.
func AppendKey(dst []byte, key string) []byte {
	if key == "" || len(key) > maxKey || !isSafe(key) || strings.HasPrefix(key, kindKey+"#") {
		return appendHashed(dst, kindKey, bytesOf(key))
	}
	return append(dst, key...)
}

// encoder writes the parts of one kind.
type encoder struct {
	kind   string
	secret bool // always hashed
}

func newEncoder(kind string) encoder { return encoder{kind: kind, secret: namesSecret(kind)} }

// append appends a part. An empty value is Missing.
func (p encoder) append(dst []byte, value string) ([]byte, Presence) {
	if value == "" {
		return dst, Missing
	}
	if p.secret || len(value) > maxValue || !isSafe(value) || strings.IndexByte(value, '|') >= 0 {
		return appendHashed(dst, p.kind, bytesOf(value)), Present
	}
	dst = append(dst, p.kind...)
	dst = append(dst, ':')
	return append(dst, value...), Present
}

// appendHashed appends kind, "#" and 22 characters of hash. value may alias dst: it is
// read before dst is written.
func appendHashed(dst []byte, kind string, value []byte) []byte {
	sum := sha256.Sum256(value)
	return appendSum(dst, kind, sum[:])
}

// appendSum appends kind, "#" and the SHA-256 of a value as appendHashed does.
func appendSum(dst []byte, kind string, sum []byte) []byte {
	dst = append(dst, kind...)
	dst = append(dst, '#')
	return base64.RawURLEncoding.AppendEncode(dst, sum[:16])
}

// isSafe reports whether s is printable ASCII without braces.
func isSafe(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '{' || c == '}' {
			return false
		}
	}
	return true
}

// bytesOf returns the bytes of s without copying, so that a header of a megabyte is not
// copied to be hashed. The bytes must be neither written nor kept.
func bytesOf(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s)) //nolint:gosec // G103: read at once, see above
}
