package keyfuncs

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// minSecret is the least length of a secret, in bytes: 128 bits if they are random.
const minSecret = 16

// WithSecret returns f with keys that can be computed only with the secret:
//
//	APIKey("X-API-Key").WithSecret(secret)
//
// Each part becomes its kind, "#" and 128 bits of HMAC-SHA-256 (RFC 2104) under the
// secret: "apikey#…", "ip#…". This hides values that can be guessed by trying them all,
// such as short API keys, addresses and user names, from those who read the store, logs
// or metrics. Plain keys are hashed without a salt, or not at all.
//
// Limits share a bucket only under the same secret, and a new secret empties all
// buckets. So keep it where the application keeps its secrets, the same in all
// processes. 32 random bytes are good. The secret is copied.
//
// The key of [Everyone] has no value to hide. Join(a, b).WithSecret(s) equals
// Join(a.WithSecret(s), b.WithSecret(s)) unless a key had to be shortened.
//
// [Func.Conceal] finds the key of a value.
//
// Err reports a secret of fewer than 16 bytes, and what f's Err reports.
func (f Func) WithSecret(secret []byte) Func {
	if err := f.Err(); err != nil {
		return Func{err: err}
	}
	if len(secret) < minSecret {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.Func.WithSecret: the secret has %d bytes, want %d or more", len(secret), minSecret)}
	}
	key := newHMACKey(secret)
	f.secrets = f.secrets.with(key, f.kind)
	if !strings.HasPrefix(f.kind, kindSecret+"(") {
		lacks := f.lacks()
		f.kind, f.lack = kindSecret+"("+f.kind+")", &lacks
	}
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

// rewrite replaces the values in the key dst[start:] by their HMAC.
func (k *hmacKey) rewrite(dst []byte, start int) []byte {
	var buf [maxKey]byte
	whole := buf[:copy(buf[:], dst[start:])]
	dst = dst[:start]
	for rest, more := whole, true; more; {
		var part []byte
		part, rest, more = bytes.Cut(rest, []byte{'|'})
		// No kind contains either.
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
		// whole contains "|", so its HMAC is never that of one part.
		return k.appendHashed(append(dst[:start], kindJoin...), whole)
	}
	return dst
}

func (k *hmacKey) appendHashed(dst, message []byte) []byte {
	sum := k.sum(message)
	return base64.RawURLEncoding.AppendEncode(append(dst, '#'), sum[:16])
}

// hmacKey is HMAC-SHA-256 with the secret already mixed in. crypto/hmac would allocate
// for each request, or need a pool.
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

// sum returns the HMAC of a message of at most maxKey bytes.
func (k *hmacKey) sum(message []byte) [sha256.Size]byte {
	var buf [sha256.BlockSize + maxKey]byte
	n := copy(buf[:], k.inner[:])
	n += copy(buf[n:], message)
	inner := sha256.Sum256(buf[:n])
	n = copy(buf[:], k.outer[:])
	n += copy(buf[n:], inner[:])
	return sha256.Sum256(buf[:n])
}
