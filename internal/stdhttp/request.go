package stdhttp

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Request is a [keyfuncs.Request] over an *http.Request. It is one pointer wide,
// so that making an interface of it does not allocate. Adapters of frameworks
// embed it, or call it, for all but the route and their own locals.
type Request struct{ r *http.Request }

var _ keyfuncs.Request = Request{}

// Of returns r as keys read it.
func Of(r *http.Request) Request { return Request{r} }

// HTTPRequest returns the request itself.
func (r Request) HTTPRequest() *http.Request { return r.r }

// hasRequest is a request of any adapter over net/http.
type hasRequest interface{ HTTPRequest() *http.Request }

// Native returns the *http.Request of any adapter over net/http.
func Native(r keyfuncs.Request) (*http.Request, bool) {
	if h, ok := keyfuncs.As[hasRequest](r); ok {
		return h.HTTPRequest(), true
	}
	return nil, false
}

// Context returns the request's context.
func (r Request) Context() context.Context { return r.r.Context() }

// Method returns the method; net/http lets a client's request have none for GET.
func (r Request) Method() string {
	if r.r.Method == "" {
		return http.MethodGet
	}
	return r.r.Method
}

// Path returns the URL's path as it was sent, before decoding.
func (r Request) Path() string {
	if r.r.URL.RawPath != "" {
		return r.r.URL.RawPath
	}
	return r.r.URL.Path
}

// Route returns the pattern that http.ServeMux matched, less its method. It is not
// known in front of a mux.
func (r Request) Route() (template string, known bool) {
	return Template(r.r.Pattern), r.r.Pattern != ""
}

// Template returns the host and path of a pattern of http.ServeMux:
// "/users/{id}" of "GET /users/{id}". Other routers' templates have no method,
// and neither should the same limit behind another adapter count GET and HEAD
// apart because one route was registered for both.
func Template(pattern string) string {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		return strings.TrimLeft(pattern[i:], " \t")
	}
	return pattern
}

// Header returns the i-th line of a header. net/http keeps Host apart, and trailers
// in a map of their own.
func (r Request) Header(name string, i int) (string, bool) {
	if name == "Host" {
		return r.r.Host, i == 0 && r.r.Host != ""
	}
	lines := r.r.Header[name]
	if i < 0 || i >= len(lines) {
		return "", false
	}
	return lines[i], true
}

// Cookie returns the cookies that r.CookiesNamed would.
func (r Request) Cookie(name string, i int) (string, bool) {
	return cookie(r.r.Header["Cookie"], name, i)
}

// Query returns the values that r.URL.Query() has.
func (r Request) Query(name string, i int) (string, bool) { return query(r.r.URL.RawQuery, name, i) }

// Param returns a parameter of the pattern that http.ServeMux matched.
func (r Request) Param(name string) (string, bool) {
	value := r.r.PathValue(name)
	return value, value != ""
}

// Peer returns the address in RemoteAddr. That is the TCP peer unless a
// middleware has overwritten it.
func (r Request) Peer() netip.Addr { return peer(r.r.RemoteAddr) }

// Value returns what the request's context holds.
func (r Request) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	return r.r.Context().Value(key)
}
