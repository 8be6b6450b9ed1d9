package quota

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// maxKey bounds the bytes of a key in the ledger: those of package keyfuncs have at most 256.
const maxKey = 512

// What keys begin with that are not stored as they are.
const (
	hexKey    = `\x` // the key's bytes in hexadecimal: it is not UTF-8, or has a NUL
	hashedKey = `\h` // the SHA-256 of the key, which is longer than maxKey
)

// textOf returns the text by which the ledger knows a key: the key itself if it is text,
// which PostgreSQL can store. Different keys have different texts.
func textOf(key []byte) string {
	switch {
	case len(key) > maxKey:
		sum := sha256.Sum256(key)
		return hashedKey + hex.EncodeToString(sum[:])
	case !utf8.Valid(key) || strings.ContainsRune(string(key), 0) || strings.HasPrefix(string(key), `\`):
		return hexKey + hex.EncodeToString(key)
	}
	return string(key)
}

// keyOf returns the key of a text. It returns false for a key that only its hash is known of.
func keyOf(text string) ([]byte, bool) {
	switch {
	case strings.HasPrefix(text, hashedKey):
		return nil, false
	case strings.HasPrefix(text, hexKey):
		key, err := hex.DecodeString(text[len(hexKey):])
		return key, err == nil
	}
	return []byte(text), true
}
