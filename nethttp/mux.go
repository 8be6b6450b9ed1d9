package nethttp

import (
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
)

// outsideRequest is a request on its way to a mux. The mux knows its route.
type outsideRequest struct {
	stdhttp.Request
	http  *http.Request
	mux   *http.ServeMux
	asked bool
	route string // once asked
}

var (
	_ keyfuncs.Request = (*outsideRequest)(nil)
	_ keyfuncs.Forks   = (*outsideRequest)(nil)
)

// outside holds requests for reuse: they are wider than a pointer, so each would
// be an allocation.
var outside = sync.Pool{New: func() any { return new(outsideRequest) }}

// Route asks the mux, once.
func (r *outsideRequest) Route() (template string, known bool) {
	if !r.asked {
		r.route, r.asked = find(r.mux, r.http), true
	}
	return r.route, true
}

// Value implements [keyfuncs.Request].
func (r *outsideRequest) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	return r.Request.Value(key)
}

// MayReach reports the pattern of a mux further out, which has matched the request, too.
func (r *outsideRequest) MayReach(template string) bool {
	outer, known := r.Request.Route()
	return known && template == outer
}

// HasRoute asks the mux for a request that the pattern would match.
func (r *outsideRequest) HasRoute(method, template string) bool {
	if method == "" {
		method = http.MethodGet
		for _, m := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions} {
			if r.HasRoute(m, template) {
				return true
			}
		}
	}
	host, at := "", template
	if i := strings.IndexByte(template, '/'); i > 0 {
		host, at = template[:i], template[i:]
	}
	at = strings.ReplaceAll(at, "{$}", "")
	example := wildcard.ReplaceAllString(at, "weblimit-example")
	asked := &http.Request{Method: method, Host: host, URL: &url.URL{Path: example}, RequestURI: example}
	return find(r.mux, asked) == template
}

// EachRoute lists none: a mux shows its patterns to nobody.
func (*outsideRequest) EachRoute(func(string) bool) {}

var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// muxOf returns the mux that a handler is, perhaps with other limiters around it, or nil.
func muxOf(h http.Handler) *http.ServeMux {
	switch h := h.(type) {
	case *http.ServeMux:
		return h
	case *handler:
		return h.mux
	}
	return nil
}

// maxNested is how many muxes in one another are looked into.
const maxNested = 16

// find returns the template of the route by which mux, or a mux that is a handler
// of it, answers a request.
func find(mux *http.ServeMux, r *http.Request) string {
	if r.RequestURI == "*" {
		return "" // a mux answers it with 400
	}
	var pattern string
	for range maxNested {
		var h http.Handler
		h, pattern = mux.Handler(r)
		inner, ok := h.(*http.ServeMux)
		if !ok {
			break
		}
		mux = inner
	}
	// The redirect of CONNECT /x to /x/ has its target as pattern, which the client chooses.
	if r.Method == http.MethodConnect && pattern == path.Clean("/"+r.URL.Path)+"/" && !strings.HasSuffix(r.URL.Path, "/") {
		return ""
	}
	return stdhttp.Template(pattern)
}

// insideRequest is a request to a handler that is not a mux. Its route is the pattern of the mux that
// it came through, if any.
type insideRequest struct{ stdhttp.Request }

var (
	_ keyfuncs.Request = insideRequest{}
	_ keyfuncs.Forks   = insideRequest{}
)

// Value implements [keyfuncs.Request].
func (r insideRequest) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	return r.Request.Value(key)
}

// MayReach reports the routes that the handler may have if it is a router: a pattern such as "/api/"
// covers them.
func (r insideRequest) MayReach(template string) bool {
	own, _ := r.Route()
	prefix, ok := subtree(own)
	if !ok {
		return false
	}
	if !strings.HasPrefix(r.Path(), prefix) {
		return true // http.StripPrefix: the router's templates don't begin with it either
	}
	return strings.HasPrefix(withoutHost(template), prefix)
}

// RouteRemedy is for advice.
func (insideRequest) RouteRemedy() string {
	return "put the limiter around the *http.ServeMux itself or around the route's handler, or name the mux in nethttp.Config.Mux"
}

// subtree returns the prefix of all paths that a template covers, if it covers more than one path:
// "/api/" for "/api/" and for "/api/{rest...}".
func subtree(template string) (prefix string, ok bool) {
	if !strings.HasSuffix(template, "/") && !strings.HasSuffix(template, "...}") {
		return "", false
	}
	prefix, _, _ = strings.Cut(withoutHost(template), "{")
	return prefix, true
}

func withoutHost(template string) string {
	if i := strings.IndexByte(template, '/'); i > 0 {
		return template[i:]
	}
	return template
}
