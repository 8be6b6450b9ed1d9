package keyfuncs

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
)

// maxToken is the longest token, in bytes. Longer header values are not hashed.
const maxToken = 1024

// Tokens holds for requests that carry one of these tokens in a header:
//
//	Tokens("X-Bypass-Token", monitoring, partner)
//
// "Authorization" means its Bearer token, as in [APIKey]. It does not hold if the
// header has several lines.
//
// A token has 16 to 1024 bytes; use 32 random ones in hexadecimal or base64. Only its
// SHA-256 is kept, and the token of a request is compared with all of them in constant
// time. No error shows a token.
//
// Err reports a header that [Header] would not take, no tokens, and a token that is
// empty, too short or too long, or contains a byte that no header can hold, such as the
// newline at the end of a file.
//
// # Security
//
// Safe over TLS with random tokens that nobody else can see: proxies and access logs
// see headers. Give each partner a token of its own, so that it can be revoked.
//
// A wrong token is no error: the condition does not hold, and the request is limited
// like any other. So guesses are limited if the limiter has a limit by [ClientIP].
// Inside [Not] or Unless it is the other way round: requests without a token are the
// exempt ones.
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

// checkToken returns what is wrong with a token, without showing it, or "".
func checkToken(token string) string {
	switch {
	case token == "":
		return "is empty"
	case len(token) < minSecret:
		return fmt.Sprintf("has %d bytes, want %d or more", len(token), minSecret)
	case len(token) > maxToken:
		return fmt.Sprintf("has %d bytes, want %d or fewer", len(token), maxToken)
	case strings.ContainsFunc(token, func(c rune) bool { return c < '!' || c > '~' }):
		return "contains whitespace, a control character or a byte outside ASCII"
	}
	return ""
}
