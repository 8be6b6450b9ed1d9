package secure

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Secrets are those that a service seals with: of a text, with commas between them, or of a file, with one per
// line, which may change. The first seals. It is not safe for concurrent use: weblimitd reads one file at a time, and
// the service copies what Live returns.
type Secrets struct {
	text, file string
	least      int // bytes of each
	live       [][]byte
}

// maxSecrets bounds how many there are: each text that a caller sends is tried with all.
const maxSecrets = 16

// NewSecrets reads the secrets. It returns nil if text and file are "".
func NewSecrets(text, file string, least int) (*Secrets, error) {
	if text == "" && file == "" {
		return nil, nil
	}
	s := &Secrets{text: text, file: file, least: least}
	_, err := s.Reload()
	return s, err
}

// Live returns the secrets. It may not be called during Reload.
func (s *Secrets) Live() [][]byte {
	if s == nil {
		return nil
	}
	return s.live
}

// Reload reads the file again, and reports whether it has changed. If anything is wrong with it, nothing changes. No
// error repeats a secret.
func (s *Secrets) Reload() (changed bool, err error) {
	place, parts := "", []Line(nil)
	if s.file != "" {
		if parts, err = ReadLines(s.file); err != nil {
			return false, err
		}
		place = s.file + ": "
	} else {
		for i, part := range strings.Split(s.text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, Line{i + 1, part})
			}
		}
	}
	var next [][]byte
	for _, part := range parts {
		if len(part.Text) < s.least {
			return false, fmt.Errorf("%snumber %d has less than %d bytes", place, part.Number, s.least)
		}
		next = append(next, []byte(part.Text))
	}
	if len(next) == 0 || len(next) > maxSecrets {
		return false, fmt.Errorf("%sthere are %d secrets, want 1 to %d", place, len(next), maxSecrets)
	}
	changed = !slices.EqualFunc(s.live, next, bytes.Equal)
	s.live = next
	return changed, nil
}
