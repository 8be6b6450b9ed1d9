package envoy

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Keys are readable where they can be, for operators: "edge|remote_address=192.0.2.1|path~files/*".
// "=" stands before a value of the request, and "~" before a wildcard that its values share. A part
// that is long, or has characters that keys use themselves, is a hash after "#". So different
// descriptors have different keys, whatever their values are.

// key returns what a rule counts by.
func (d *domain) key(nodes []*node, entries []*ratelimit.RateLimitDescriptor_Entry) []byte {
	dst := appendPart(make([]byte, 0, 128), d.name)
	for i, n := range nodes {
		dst = appendPart(append(dst, '|'), entries[i].GetKey())
		if n.share {
			dst = appendPart(append(dst, '~'), n.value)
		} else {
			dst = appendPart(append(dst, '='), entries[i].GetValue())
		}
	}
	return dst
}

// overrideKey returns what an override counts by: a descriptor and a unit.
func (d *domain) overrideKey(unit rls.RateLimitResponse_RateLimit_Unit, entries []*ratelimit.RateLimitDescriptor_Entry) []byte {
	dst := appendPart(make([]byte, 0, 128), d.name)
	dst = append(append(dst, '!'), strings.ToLower(unit.String())...)
	for _, entry := range entries {
		dst = appendPart(append(dst, '|'), entry.GetKey())
		dst = appendPart(append(dst, '='), entry.GetValue())
	}
	return dst
}

// longestPart is the longest part that stays readable.
const longestPart = 64

func appendPart(dst []byte, part string) []byte {
	if len(part) <= longestPart && plain(part) {
		return append(dst, part...)
	}
	sum := sha256.Sum256([]byte(part))
	dst = append(dst, '#')
	return base64.RawURLEncoding.AppendEncode(dst, sum[:16])
}

// plain reports whether a part has only characters that mean nothing in a key.
func plain(part string) bool { return consistsOf(part, "._-:/@+*,") }
