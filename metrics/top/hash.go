package top

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// secretSize is how many bytes a secret has.
const secretSize = 16

// secret is the key of the hash by which clients find their place in a table and in the sample.
// Clients choose keys: with a known hash they could choose ones that push others out, or
// that fill the sample.
type secret struct{ k0, k1 uint64 }

func newSecret() []byte {
	text := make([]byte, secretSize)
	_, _ = rand.Read(text) // never fails
	return text
}

func secretOf(text []byte) secret {
	return secret{binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[8:])}
}

// group returns a number that tells samples of different secrets apart and gives none away.
func (s secret) group() uint64 { return s.hash([]byte("group")) }

// hash is SipHash-1-3: J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF",
// with the rounds that most hash tables use. It is not maphash, whose seed other processes
// can't have.
func (s secret) hash(key []byte) uint64 {
	v0, v1 := s.k0^0x736f6d6570736575, s.k1^0x646f72616e646f6d
	v2, v3 := s.k0^0x6c7967656e657261, s.k1^0x7465646279746573
	last := uint64(len(key)) << 56
	for len(key) >= 8 {
		m := binary.LittleEndian.Uint64(key)
		key = key[8:]
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	for i, b := range key {
		last |= uint64(b) << (8 * i)
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (a, b, c, d uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
