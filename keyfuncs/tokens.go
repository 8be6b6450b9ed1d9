package keyfuncs

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
)

// A header may hold a megabyte, which would be hashed on each request.
const maxToken = 1024

// Tokens holds for requests that carry one of these tokens in a header:
// Tokens("X-Bypass-Token", monitoring, partner). "Authorization" means its
// Bearer token, as in [APIKey]. A header of several lines holds none.
//
// Tokens have 16 to 1024 bytes; take 32 random ones, in hexadecimal or base64.
// Only their SHA-256 is kept, and what a request brings is compared with all of
// them in constant time. No error shows a token.
//
// Err reports a header that [Header] would not take, no tokens, and a token that
// is empty, too short or long, or has a byte that no header can hold, such as the
// newline at the end of the file that it was read from.
//
// # Security
//
// Safe over TLS with tokens that are random and on nobody else's way: proxies
// and access logs see headers. Give each partner its own, so that one can be
// taken back.
//
// A wrong token is no error: the condition does not hold, and the request is
// limited like any other. So guessing is limited too where the limits of this
// limiter include one by [ClientIP]. Behind [Not] or Unless think the other way
// round.
func Tokens(header string, tokens ...string) Condition {
	if problem := checkName("header", header); problem != "" {
		return Condition{err: nameError("Tokens", header, problem)}
	}
	if err := addressHeaderError("Tokens", header); err != nil {
		return Condition{err: err}
	}
	if len(tokens) == 0 {
		return Condition{err: errors.New("weblimit: keyfuncs.Tokens: no tokens")}
	}
	sums := make([][sha256.Size]byte, len(tokens))
	for i, token := range tokens {
		if problem := checkToken(token); problem != "" {
			return Condition{err: fmt.Errorf("weblimit: keyfuncs.Tokens: token %d of %d %s", i+1, len(tokens), problem)}
		}
		sums[i] = sha256.Sum256([]byte(token))
	}
	canonical := textproto.CanonicalMIMEHeaderKey(header)
	return Condition{ask: yesOrNo(func(r Request) bool {
		value, _ := onlyLine(r, canonical) // "" unless there is just one
		if canonical == "Authorization" {
			value, _ = bearerToken(trimValue(value))
		}
		if len(value) < minSecret || len(value) > maxToken {
			return false
		}
		sum := sha256.Sum256(bytesOf(value))
		found := 0
		for i := range sums {
			found |= subtle.ConstantTimeCompare(sums[i][:], sum[:])
		}
		return found == 1
	})}
}

// checkToken says what is wrong with a token without showing it.
func checkToken(token string) string {
	switch {
	case token == "":
		return "is empty"
	case len(token) < minSecret:
		return fmt.Sprintf("has %d bytes, want %d or more", len(token), minSecret)
	case len(token) > maxToken:
		return fmt.Sprintf("has %d bytes, want %d or fewer", len(token), maxToken)
	case strings.ContainsFunc(token, func(c rune) bool { return c < '!' || c > '~' }):
		return "holds a blank, a line break or a byte outside ASCII"
	}
	return ""
}
