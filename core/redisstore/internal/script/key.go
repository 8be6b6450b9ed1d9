package script

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/weblimit/weblimit/core/store"
)

// AppendKey writes the Redis key that holds all limits of a client key. The braces make the
// client key its hash tag, up to the first closing brace in it.
func AppendKey(dst []byte, prefix string, tag []byte) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, '{')
	if len(tag) == 0 || tag[0] == '}' || tag[0] == filler {
		dst = append(dst, filler)
	}
	dst = append(dst, tag...)
	return append(dst, '}')
}

// filler comes before a client key that would make an empty hash tag, or that begins with filler
// itself. Redis takes an empty tag for none and chooses the slot by the whole Redis key, so that
// the marks of a client would be in other slots than its limits. The keys of package keyfuncs
// never begin like that.
const filler = 0

// markHash is how many bytes of the hash are in the key of a mark. With 128 bits nobody finds
// two operations with the same key by trying.
const markHash = 16

// AppendMarkKey writes the Redis key of a mark: the key of its client, and a hash of the limit
// and of the operation's key, which the client chooses.
func AppendMarkKey(dst []byte, prefix string, check *store.Check) []byte {
	var few [256]byte
	hash := sha256.Sum256(append(appendID(few[:0], check.Rule.ID()), check.Once...))
	dst = append(AppendKey(dst, prefix, check.Key), ':')
	return base64.RawURLEncoding.AppendEncode(dst, hash[:markHash])
}

// Pattern returns the pattern by which SCAN finds the keys of a store, except those of
// marks, which don't end in the brace.
func Pattern(prefix string) string {
	var b strings.Builder
	for i := range len(prefix) {
		if strings.IndexByte(`*?[]^\`, prefix[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(prefix[i])
	}
	return b.String() + "{*}"
}

// TagOf returns the client key of a Redis key that Pattern finds.
func TagOf(prefix, key string) string {
	tag := strings.TrimSuffix(strings.TrimPrefix(key, prefix+"{"), "}")
	return strings.TrimPrefix(tag, string(rune(filler)))
}
