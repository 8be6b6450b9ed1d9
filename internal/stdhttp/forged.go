package stdhttp

import (
	"net/http"
	"net/url"
)

// ForgedIP is the address that the headers of a [Forged] request claim (RFC 5737).
const ForgedIP = "203.0.113.77"

// Forged returns a request whose headers lie about its address, sent by a peer
// that is no proxy of anybody's, and the names of these headers. A framework that
// believes it believes every client.
func Forged() (r *http.Request, headers string) {
	return &http.Request{
		Method:     http.MethodGet,
		URL:        &url.URL{Path: "/"},
		RemoteAddr: "198.51.100.77:80",
		Header:     http.Header{"X-Forwarded-For": {ForgedIP}, "X-Real-Ip": {ForgedIP}},
	}, "X-Forwarded-For or X-Real-IP"
}
