package keyfuncs

import (
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strconv"
	"strings"
	"unsafe"
)

const (
	maxKey   = 256 // bytes of a whole key
	maxValue = 64  // bytes of a value that stays readable
	maxName  = 64  // bytes of a header or cookie name
)

// Encode gives the key of one part for code outside HTTP, such as a job or a
// consumer, so that it can share a bucket with requests. Take the kind from
// [Func.Kind]: Encode("user", "alice") is the key of [User] for "alice",
// Encode("apikey", secret) that of [APIKey], Encode("header.x-tenant", "42")
// that of [Header], Encode("ip", "2001:db8::1") that of [ClientIP]; of a ClientIP
// with [IPv6Prefix] give the network, as in Encode("ip", "2001:db8::/56"). For
// several parts, as in [Join], join what it returns with "|". It can't know the
// secret of [Func.WithSecret].
//
// The value may be anything; see the package comment for how it is encoded. An
// empty value has no key and gives "", as does one of blanks where blanks are no part
// of it. A kind that no Func of one part can have
// ("a:b", "join") gives a key of its own that begins with "invalid#", never
// that of another kind.
func Encode(kind, value string) string {
	if value == "" {
		return ""
	}
	if !isKind(kind) {
		// Quoting marks where the kind ends.
		return string(appendHashed(nil, kindInvalid, bytesOf(strconv.Quote(kind)+value)))
	}
	dst := make([]byte, 0, len(kind)+1+maxValue)
	switch {
	case kind == kindIP:
		if addr, err := netip.ParseAddr(value); err == nil {
			return string(appendAddr(dst, addr, ipv6Bits))
		}
	case kind == kindMethod:
		value = foldMethod(value)
	case kind == kindAPIKey || strings.HasPrefix(kind, prefixHeader) || strings.HasPrefix(kind, prefixCookie):
		value = trimValue(value)
	}
	dst, _ = newPart(kind).append(dst, value)
	return string(dst)
}

// AppendKey appends a key that an app names itself, such as "tenant:42". It is
// appended as it is when it has 1 to 256 bytes, all printable ASCII without "{"
// and "}", and does not begin with "key#"; otherwise as "key#" and its hash. So
// different keys stay different and every outcome is bounded and safe to store.
// The key of a Func is always appended as it is and so shares its bucket.
//
// An empty key is a mistake of the caller; it is hashed like any other odd one,
// which makes it one bucket of its own.
func AppendKey(dst []byte, key string) []byte {
	if key == "" || len(key) > maxKey || !isSafe(key) || strings.HasPrefix(key, kindKey+"#") {
		return appendHashed(dst, kindKey, bytesOf(key))
	}
	return append(dst, key...)
}

// part encodes the values of one kind.
type part struct {
	kind   string
	secret bool // always hashed
}

func newPart(kind string) part { return part{kind: kind, secret: namesSecret(kind)} }

// append appends kind and value. An empty value is Missing.
func (p part) append(dst []byte, value string) ([]byte, Presence) {
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

// appendHashed appends kind, "#" and 22 characters. value may be a part of dst:
// it is read before dst is written.
func appendHashed(dst []byte, kind string, value []byte) []byte {
	sum := sha256.Sum256(value)
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

// bytesOf views s as bytes, so that a header of a megabyte is hashed without
// being copied. The bytes must not be written and not be kept.
func bytesOf(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s)) //nolint:gosec // G103: read at once, see above
}
