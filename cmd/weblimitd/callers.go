package main

import (
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
)

// tokenHeader has the caller's token where Authorization belongs to the client: in subrequests of a
// gateway. It works everywhere.
const tokenHeader = "Weblimit-Token"

// callers lets those in who have a token, if there are tokens. Certificates are checked before.
type callers struct {
	tokens *secure.Tokens // nil for none
}

// letsIn reports whether a request has a valid token, and takes the token out of the request: what
// follows sees the client's fields alone. Two tokens are none, as nobody knows which would count.
func (c *callers) letsIn(h http.Header, authorizationIsClients bool) bool {
	tokens := h[tokenHeader]
	delete(h, tokenHeader)
	if c.tokens == nil {
		return true
	}
	if len(tokens) == 0 && !authorizationIsClients {
		fields := h["Authorization"]
		if len(fields) != 1 {
			return false
		}
		scheme, token, _ := strings.Cut(fields[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		tokens = []string{strings.TrimSpace(token)}
		delete(h, "Authorization")
	}
	return len(tokens) == 1 && c.tokens.Valid(tokens[0])
}
