package service

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"
)

// seal makes texts that callers can keep and give back, and neither read nor change.
//
// A sealed text is a salt, a nonce and the text under AES-256-GCM, with a key of its own that
// HMAC-SHA256 derives from secret and salt: so no number of texts wears a secret out. Under the secret itself,
// random nonces of 96 bits would be safe for 2^32 texts only. Texts have one salt only if they answer repeats of one renewal.
type seal struct {
	secrets atomic.Pointer[[][]byte] // the first seals, all open
}

const (
	saltSize  = 16
	nonceSize = 12
)

var errSeal = errors.New("not sealed by this service")

func (s *seal) init(secrets [][]byte) error {
	if len(secrets) == 0 {
		secret := make([]byte, minSecret)
		if _, err := rand.Read(secret); err != nil {
			return err
		}
		secrets = [][]byte{secret}
	}
	s.set(secrets)
	return nil
}

// minSecret is the least number of bytes of a secret.
const minSecret = 32

func checkSecrets(secrets [][]byte) error {
	for i, secret := range secrets {
		if len(secret) < minSecret {
			return fmt.Errorf("secret %d has %d bytes, the least is %d", i+1, len(secret), minSecret)
		}
	}
	return nil
}

// set replaces the secrets by copies of others.
func (s *seal) set(secrets [][]byte) {
	own := make([][]byte, len(secrets))
	for i, secret := range secrets {
		own[i] = bytes.Clone(secret)
	}
	s.secrets.Store(&own)
}

// aead derives the key of one text. The label keeps it apart from other uses of the same secret.
func aead(secret, salt []byte) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("weblimit reservation 1\x00"))
	mac.Write(salt)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// close seals a text, in place of the one with the salt before if that is not nil.
func (s *seal) close(text, before []byte) (string, error) {
	out := make([]byte, saltSize+nonceSize, saltSize+nonceSize+len(text)+16)
	if _, err := rand.Read(out); err != nil {
		return "", err
	}
	if before != nil {
		copy(out, saltAfter(before))
	}
	with, err := aead((*s.secrets.Load())[0], out[:saltSize])
	if err != nil {
		return "", err
	}
	out = with.Seal(out, out[saltSize:], text, nil)
	return base64.RawURLEncoding.EncodeToString(out), nil
}

// saltAfter returns the salt of the texts that are sealed in place of one with the salt before.
func saltAfter(before []byte) []byte {
	sum := sha256.Sum256(append([]byte("weblimit renewal 1\x00"), before...))
	return sum[:saltSize]
}

// open returns the text of a sealed one, and its ID, which nobody can choose.
func (s *seal) open(sealed string) (text, id []byte, err error) {
	// Strict, since base64 otherwise has several spellings of one text.
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(raw) < saltSize+nonceSize {
		return nil, nil, errSeal
	}
	id = raw[:saltSize+nonceSize]
	for _, secret := range *s.secrets.Load() {
		with, err := aead(secret, id[:saltSize])
		if err != nil {
			return nil, nil, err
		}
		if text, err := with.Open(nil, id[saltSize:], raw[len(id):], nil); err == nil {
			return text, id, nil
		}
	}
	return nil, nil, errSeal
}
