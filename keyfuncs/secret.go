package keyfuncs

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// minSecret is the bytes that a secret of this package has at least: 128 bits
// when they are random.
const minSecret = 16

// WithSecret gives f with keys that only who knows the secret can make:
// APIKey("X-API-Key").WithSecret(secret). Each part becomes its kind, "#" and 128
// bits of HMAC-SHA-256 (RFC 2104) under the secret: "apikey#…", "ip#…". It keeps
// from readers of the store, of logs and metrics what can be guessed by trying
// all values: short API keys, addresses, user names. Without it keys are not
// salted.
//
// Limits share a bucket only under the same secret, and a new secret empties all
// buckets, so take one from where the app keeps its secrets, the same in all
// processes. It is copied. 32 random bytes are good.
//
// "all" has no value to hide. Join(a, b).WithSecret(s) is Join(a.WithSecret(s),
// b.WithSecret(s)) unless something had to be shortened.
//
// Err reports a secret of fewer than 16 bytes, and what f's Err does.
func (f Func) WithSecret(secret []byte) Func {
	if err := f.Err(); err != nil {
		return Func{err: err}
	}
	if len(secret) < minSecret {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.Func.WithSecret: the secret has %d bytes, want %d or more", len(secret), minSecret)}
	}
	key := newHMACKey(secret)
	read := f.read
	f.read = func(dst []byte, r Request) ([]byte, Presence) {
		start := len(dst)
		dst, p := read(dst, r)
		if p != Present {
			return dst, p
		}
		return key.rewrite(dst, start), Present
	}
	return f
}

// rewrite hashes the values in the key that dst holds from start on.
func (k *hmacKey) rewrite(dst []byte, start int) []byte {
	var buf [maxKey]byte
	whole := buf[:copy(buf[:], dst[start:])]
	dst = dst[:start]
	for rest, more := whole, true; more; {
		var part []byte
		part, rest, more = bytes.Cut(rest, []byte{'|'})
		// No kind holds either.
		if i := bytes.IndexAny(part, ":#"); i >= 0 {
			dst = k.appendHashed(append(dst, part[:i]...), part)
		} else {
			dst = append(dst, part...)
		}
		if more {
			dst = append(dst, '|')
		}
	}
	if len(dst)-start > maxKey {
		// whole holds a bar, so it is no part's message.
		return k.appendHashed(append(dst[:start], kindJoin...), whole)
	}
	return dst
}

func (k *hmacKey) appendHashed(dst, message []byte) []byte {
	sum := k.sum(message)
	return base64.RawURLEncoding.AppendEncode(append(dst, '#'), sum[:16])
}

// hmacKey is HMAC-SHA-256 with the secret already mixed in. crypto/hmac would
// allocate on each request, or need a pool.
type hmacKey struct{ inner, outer [sha256.BlockSize]byte }

func newHMACKey(secret []byte) *hmacKey {
	if len(secret) > sha256.BlockSize {
		sum := sha256.Sum256(secret)
		secret = sum[:]
	}
	var k hmacKey
	copy(k.inner[:], secret)
	copy(k.outer[:], secret)
	for i := range k.inner {
		k.inner[i] ^= 0x36
		k.outer[i] ^= 0x5c
	}
	return &k
}

// sum takes a message of at most maxKey bytes.
func (k *hmacKey) sum(message []byte) [sha256.Size]byte {
	var buf [sha256.BlockSize + maxKey]byte
	n := copy(buf[:], k.inner[:])
	n += copy(buf[n:], message)
	inner := sha256.Sum256(buf[:n])
	n = copy(buf[:], k.outer[:])
	n += copy(buf[n:], inner[:])
	return sha256.Sum256(buf[:n])
}
