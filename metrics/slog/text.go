package weblimitslog

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxText   = 256 // bytes of a text that a client may have chosen
	hashBytes = 8   // of a key: two of a million clients share one with a chance of 1 in 37 million
)

// key returns what is logged of a key, "" if there is none.
func (o *Observer) key(ctx context.Context, key []byte) string {
	if len(key) == 0 {
		return ""
	}
	if o.config.Key != nil {
		if label := o.config.Key(ctx, string(key)); label != "" {
			return clean(label)
		}
	}
	hash := hmac.New(sha256.New, o.config.Secret)
	hash.Write(key)
	return hex.EncodeToString(hash.Sum(nil)[:hashBytes])
}

// clean returns a copy of s that no handler and no terminal can take for more than a text: without
// line breaks, control characters and marks that reverse the direction, and not too long.
func clean(s string) string {
	cut := len(s) > maxText
	if cut {
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	if strings.ContainsFunc(s, unprintable) {
		s = strconv.Quote(s)
		s = s[1 : len(s)-1]
	}
	if cut {
		return s + "…"
	}
	return strings.Clone(s)
}

func unprintable(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }

// method returns a method of HTTP. Clients make up others.
func method(s string) string {
	switch s {
	case "":
		return ""
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "QUERY":
		return strings.Clone(s)
	}
	return "other"
}
