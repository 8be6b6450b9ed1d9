// Package secure holds what callers are let in by, tokens and certificates, and changes it while serving.
package secure

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weblimit/weblimit/internal/wholefile"
)

// MinToken is the least number of bytes of a token: there is no other defence against guessing.
const MinToken = 16

// maxTokens bounds the file.
const (
	maxTokens     = 1024
	maxTokensFile = 1 << 20
)

// Tokens are bearer tokens of callers: those of the environment and those of a file, which may change.
// Several are valid at a time, so that they can be rotated.
type Tokens struct {
	file   string
	fixed  [][sha256.Size]byte
	hashes atomic.Pointer[[][sha256.Size]byte]
}

// NewTokens returns the tokens of a text, with commas between them, and of a file, with one per line.
// Either may be "". It returns nil if both are.
func NewTokens(text, file string) (*Tokens, error) {
	if text == "" && file == "" {
		return nil, nil
	}
	t := &Tokens{file: file}
	if text != "" {
		for i, token := range strings.Split(text, ",") {
			hash, err := hashToken(strings.TrimSpace(token))
			if err != nil {
				return nil, fmt.Errorf("token %d: %w", i+1, err)
			}
			t.fixed = append(t.fixed, hash)
		}
	}
	_, err := t.Reload()
	return t, err
}

// Reload reads the file again, and reports whether it has changed. If anything is wrong with it, nothing
// changes.
func (t *Tokens) Reload() (changed bool, err error) {
	hashes := t.fixed
	if t.file != "" {
		lines, err := ReadLines(t.file)
		if err != nil {
			return false, err
		}
		for _, line := range lines {
			hash, err := hashToken(line.Text)
			if err != nil {
				return false, fmt.Errorf("%s:%d: %w", t.file, line.Number, err)
			}
			hashes = append(hashes[:len(hashes):len(hashes)], hash) // a copy: fixed stays, and so does what requests look at
		}
		if len(hashes) == 0 {
			return false, fmt.Errorf("%s has no token: one per line", t.file)
		}
	}
	if len(hashes) > maxTokens {
		return false, fmt.Errorf("there are %d tokens, the most is %d", len(hashes), maxTokens)
	}
	before := t.hashes.Swap(&hashes)
	return before != nil && !slices.Equal(*before, hashes), nil
}

// Valid reports whether a token is one of these, in a time that says nothing about which.
func (t *Tokens) Valid(token string) bool {
	got, found := sha256.Sum256([]byte(token)), 0
	for _, hash := range *t.hashes.Load() {
		found |= subtle.ConstantTimeCompare(hash[:], got[:])
	}
	return found == 1 && token != ""
}

// hashToken checks a token. The error does not repeat it.
func hashToken(token string) ([sha256.Size]byte, error) {
	if len(token) < MinToken {
		return [sha256.Size]byte{}, fmt.Errorf("a token has at least %d bytes, such as those of openssl rand -hex 32", MinToken)
	}
	for i := range len(token) {
		if c := token[i]; c <= ' ' || c > '~' || c == ',' {
			return [sha256.Size]byte{}, errors.New("a token has visible letters of ASCII, and no comma")
		}
	}
	return sha256.Sum256([]byte(token)), nil
}

// Line is a line of a file that says something: neither blank nor a comment.
type Line struct {
	Number int // from 1
	Text   string
}

// ReadLines reads a file of secrets with one per line, as those of tokens are read. Comments begin with #.
func ReadLines(name string) (lines []Line, err error) {
	text, err := readSmall(name, maxTokensFile)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, Line{i + 1, line})
		}
	}
	return lines, nil
}

// readSmall reads a file of at most so many bytes, and not while it is being written: half a file of
// tokens is one that locks callers out.
func readSmall(name string, most int64) ([]byte, error) {
	return wholefile.Read(context.Background(), name, most)
}
