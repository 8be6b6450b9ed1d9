package chilimit

import (
	"net/http"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a request on its way through chi's routers.
type request struct {
	stdhttp.Request
	http    *http.Request
	mounts  *mounts
	asked   bool
	route   string      // once asked
	scratch chi.Context // where chi notes what it finds
}

var _ keyfuncs.Request = (*request)(nil)

// requests are reused: they are wider than a pointer, so each would be an allocation.
var requests = sync.Pool{New: func() any { return new(request) }}

// release keeps of r what scratch has grown to.
func (r *request) release() {
	r.scratch.Reset()
	*r = request{scratch: r.scratch}
	requests.Put(r)
}

// Route asks chi, once.
func (r *request) Route() string {
	if !r.asked {
		r.route, r.asked = r.find(), true
	}
	return r.route
}

// FrameworkIP returns what chi's middleware.ClientIPFrom… has found, for
// keyfuncs.Framework.
func (r *request) FrameworkIP() string { return middleware.GetClientIP(r.Context()) }

// find goes on from where chi has got to. Chi's own context is left as it is.
func (r *request) find() string {
	at := chi.RouteContext(r.Context())
	if at == nil || at.Routes == nil {
		return "" // outside of chi
	}
	router, path := at.Routes, at.RoutePath
	if n := len(at.RoutePatterns); n > 0 {
		if !strings.HasSuffix(at.RoutePatterns[n-1], "*") {
			return at.RoutePattern()
		}
		if router = r.mounts.router(at); router == nil {
			return at.RoutePattern() // a route that ends in *
		}
		// Before it calls what is mounted chi moves the rest of the path from here to RoutePath.
		if i := len(at.URLParams.Keys) - 1; i >= 0 && i < len(at.URLParams.Values) && at.URLParams.Values[i] != "" {
			path = "/" + at.URLParams.Values[i]
		}
	} else if path == "" {
		path = r.Path()
	}
	if path == "" {
		path = "/"
	}
	method := at.RouteMethod
	if method == "" {
		method = r.http.Method
	}
	if route := r.findBelow(router, at.RoutePatterns, method, path); route != "" || method != http.MethodHead {
		return route
	}
	return r.findBelow(router, at.RoutePatterns, http.MethodGet, path)
}

// findBelow finds the route of path in router, which has been reached by patterns.
// Find adds to them as routing does, so the template has the form that chi gives it.
func (r *request) findBelow(router chi.Routes, patterns []string, method, path string) string {
	r.scratch.Reset()
	r.scratch.RoutePatterns = append(r.scratch.RoutePatterns, patterns...)
	if router.Find(&r.scratch, method, path) == "" {
		return ""
	}
	return r.scratch.RoutePattern()
}
