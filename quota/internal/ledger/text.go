package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// MaxKey bounds the bytes of a key in the ledger: those of package keyfuncs have at most 256.
const MaxKey = 512

// What keys begin with that are not stored as they are.
const (
	hexKey    = `\x` // the key's bytes in hexadecimal: it is not UTF-8, or has a NUL
	HashedKey = `\h` // the SHA-256 of the key, which is longer than MaxKey
)

// TextOf returns the text by which the ledger knows a key: the key itself if it is text,
// which PostgreSQL can store. Different keys have different texts.
func TextOf(key []byte) string {
	switch {
	case len(key) > MaxKey:
		sum := sha256.Sum256(key)
		return HashedKey + hex.EncodeToString(sum[:])
	case !utf8.Valid(key) || strings.ContainsRune(string(key), 0) || strings.HasPrefix(string(key), `\`):
		return hexKey + hex.EncodeToString(key)
	}
	return string(key)
}

// KeyOf returns the key of a text. It returns false for a key that only its hash is known of.
func KeyOf(text string) ([]byte, bool) {
	switch {
	case strings.HasPrefix(text, HashedKey):
		return nil, false
	case strings.HasPrefix(text, hexKey):
		key, err := hex.DecodeString(text[len(hexKey):])
		return key, err == nil
	}
	return []byte(text), true
}
