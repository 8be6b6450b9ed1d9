package main

import (
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/internal/settings"
)

// tokenHeader has the caller's token where Authorization belongs to the client: in subrequests of a
// gateway. It works everywhere.
const tokenHeader = "Weblimit-Token"

// callerOptions are the settings of who may ask.
type callerOptions struct {
	tokens, tokensFile           settings.String
	tlsCert, tlsKey, tlsClientCA settings.String
	tlsClientNames               settings.List
	tlsGRPCOnly                  settings.Bool
}

func (o *callerOptions) add(g settings.Group) {
	g.Secret("tokens", &o.tokens, "bearer tokens, with commas between them")
	g.Add("tokens-file", &o.tokensFile, "", "file of bearer tokens, one per line")
	g.Add("tls-cert", &o.tlsCert, "", "PEM file with the certificate of the data and gRPC listeners")
	g.Add("tls-key", &o.tlsKey, "", "PEM file with its key")
	g.Add("tls-client-ca", &o.tlsClientCA, "", "PEM file of authorities: callers need a certificate of them")
	g.Add("tls-client-names", &o.tlsClientNames, "", "names that a caller's certificate has one of")
	g.Add("tls-grpc-only", &o.tlsGRPCOnly, "false", "these are for the gRPC listener alone: the data listener, which probes ask, has no TLS").Needs("tls-cert")
}

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
