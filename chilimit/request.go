package chilimit

import (
	"net/http"
	"slices"
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
	http   *http.Request
	mounts *mounts
	inner  *chi.Mux // that the limiter is around, if it is
	asked  bool
	found  found       // once asked
	around chi.Context // where chi notes what it finds
	memory stdhttp.Memory
}

// found describes a route.
type found struct {
	route string
	known bool
	alias string // another template of the route, or ""
	below string // the prefix of the templates of routes further in, or ""
}

var (
	_ keyfuncs.Request = (*request)(nil)
	_ keyfuncs.Forks   = (*request)(nil)
)

// requests are reused: they are wider than a pointer, so each would be an allocation.
var requests = sync.Pool{New: func() any { return new(request) }}

// acquire returns r as keys read it, until release.
func acquire(r *http.Request, m *mounts, inner *chi.Mux) *request {
	in := requests.Get().(*request)
	in.Request, in.http, in.mounts, in.inner = stdhttp.Of(r), r, m, inner
	return in
}

// release returns r to the pool. Its chi.Context keeps the room that it has grown to.
func (r *request) release() {
	if r.asked {
		r.around.Reset()
		r.asked, r.found = false, found{}
	}
	r.Request, r.http, r.mounts, r.inner = stdhttp.Request{}, nil, nil, nil
	requests.Put(r)
}

// Route asks chi, once.
func (r *request) Route() (template string, known bool) {
	r.ask()
	return r.found.route, r.found.known
}

// MayReach reports the other template of the root of a mount, the routes below a handler that may
// be a router, and a template with the slash at its end that chi leaves out.
func (r *request) MayReach(template string) bool {
	r.ask()
	f := &r.found
	return f.alias != "" && template == f.alias ||
		f.below != "" && strings.HasPrefix(template, f.below) ||
		f.route != "" && strings.TrimSuffix(template, "/") == f.route
}

// Param returns a parameter of the path that chi has matched so far.
func (r *request) Param(name string) (string, bool) {
	at := chi.RouteContext(r.Context())
	return chi.URLParam(r.http, name), at != nil && slices.Contains(at.URLParams.Keys, name)
}

// HasRoute is for advice. Below a handler that is no router of chi there may be any route.
func (r *request) HasRoute(method, template string) bool {
	router := r.router()
	if router == nil {
		return true
	}
	has := false
	walk(router, func(registered, route string, h http.Handler) bool {
		_, inner := h.(chi.Router)
		below, mount := strings.CutSuffix(route, "*")
		has = strings.TrimSuffix(route, "/") == strings.TrimSuffix(template, "/") && stdhttp.TakesMethod(registered, method) ||
			mount && !inner && strings.HasPrefix(template, below)
		return !has
	})
	return has
}

// EachRoute is for advice.
func (r *request) EachRoute(yield func(string) bool) {
	if router := r.router(); router != nil {
		walk(router, func(method, route string, _ http.Handler) bool { return yield(method + " " + route) })
	}
}

// router returns the outermost router that the request knows, or nil.
func (r *request) router() chi.Routes {
	if at := chi.RouteContext(r.http.Context()); at != nil && at.Routes != nil {
		return at.Routes
	}
	if r.inner != nil {
		return r.inner
	}
	return nil
}

// walk calls each with the routes of a router, until it returns false.
func walk(router chi.Routes, each func(method, route string, h http.Handler) bool) {
	_ = chi.Walk(router, func(method, route string, h http.Handler, _ ...func(http.Handler) http.Handler) error {
		if !each(method, route, h) {
			return http.ErrAbortHandler // ends the walk
		}
		return nil
	})
}

// RouteRemedy is for advice.
func (r *request) RouteRemedy() string {
	if at := chi.RouteContext(r.Context()); at == nil || at.Routes == nil {
		return "put the limiter into the router, by Use or With, or directly around it"
	}
	if r.mounts.rewritten.Load() {
		return "put middleware that changes the path or the method, such as StripSlashes, before the limiter"
	}
	return "put the limiter on the route, and write the template as chi's RoutePattern does"
}

// FrameworkIP returns the address that chi's middleware.ClientIPFrom… has found, for
// keyfuncs.Framework.
func (r *request) FrameworkIP() string { return middleware.GetClientIP(r.Context()) }

// ask goes on from where chi has got to. Chi's own context is left as it is.
func (r *request) ask() {
	if r.asked {
		return
	}
	r.asked = true
	method, path := r.http.Method, ""
	router := r.inner
	at := chi.RouteContext(r.Context())
	r.around.Reset()
	if at == nil { // outside of chi
		path = r.Path()
	} else {
		if at.RouteMethod != "" {
			method = at.RouteMethod
		}
		router, path = r.reached(at)
	}
	if router == nil {
		return
	}
	if path == "" {
		path = "/"
	}
	reached := len(r.around.RoutePatterns)
	if r.findBelow(router, method, path); r.found.route == "" && method == http.MethodHead {
		r.around.RoutePatterns = r.around.RoutePatterns[:reached]
		r.findBelow(router, http.MethodGet, path)
	}
	if r.found.route == "" && r.mounts.rewritten.Load() {
		r.found.known = false
	}
}

// reached returns the router that is going to route the rest of the path, and that rest. It puts the
// patterns so far into r.around, as those of mounts. If there is no such router it returns nil,
// and r.found describes the route.
func (r *request) reached(at *chi.Context) (router *chi.Mux, path string) {
	root, ok := at.Routes.(*chi.Mux)
	if !ok {
		return nil, "" // none, or one of somebody else
	}
	patterns := at.RoutePatterns
	if len(patterns) == 0 {
		if path = at.RoutePath; path == "" {
			path = r.Path()
		}
		return root, path
	}
	router = root
	end := mount{}
	for _, pattern := range patterns {
		if end = (mount{}); router != nil {
			end = r.mounts.of(router, pattern)
			router = end.router
		}
		if end.pattern != "" {
			pattern = end.pattern
		}
		r.around.RoutePatterns = append(r.around.RoutePatterns, pattern)
	}
	if router == nil {
		r.found = found{route: r.around.RoutePattern(), known: true}
		switch {
		case end.pattern == "": // a route
			return nil, ""
		case r.inner == nil: // a handler, which may be a router in disguise
			r.found.below = strings.TrimSuffix(r.found.route, "*")
			return nil, ""
		}
		router = r.inner
	}
	if !strings.HasSuffix(patterns[len(patterns)-1], "*") {
		return router, "/" // the root of a mount
	}
	// Before it calls a mounted handler, chi moves the rest of the path from here to RoutePath.
	if i := len(at.URLParams.Keys) - 1; i >= 0 && i < len(at.URLParams.Values) && at.URLParams.Values[i] != "" {
		return router, "/" + at.URLParams.Values[i]
	}
	return router, at.RoutePath
}

// maxMounts is how many mounts in one another are looked into.
const maxMounts = 16

// findBelow finds the route of path in router, which has been reached by the
// patterns in r.around. Find adds to them as routing does, so the template has the
// form that chi gives it.
//
// Find does not look into a router whose root is asked for, "/api" of "/api/*", and
// calls that a route. One can be there, too, registered over the mount: both
// spellings are the mount's route, and the other is an alias.
func (r *request) findBelow(router *chi.Mux, method, path string) {
	r.found = found{known: true}
	for range maxMounts {
		from := len(r.around.RoutePatterns)
		if router.Find(&r.around, method, path) == "" {
			return
		}
		end := len(r.around.RoutePatterns) - 1
		last, here := r.around.RoutePatterns[end], mount{}
		if router = r.follow(router, r.around.RoutePatterns[from:end]); router != nil {
			here = r.mounts.of(router, last)
		}
		r.found.route = r.around.RoutePattern() // also if a mounted router has none for its root
		if here.pattern == "" || here.pattern == last {
			break
		}
		r.found.alias = r.found.route
		r.around.RoutePatterns[end] = here.pattern
		if here.router == nil {
			r.found.route = r.around.RoutePattern()
			break
		}
		router, path = here.router, "/"
	}
	if r.found.alias == r.found.route {
		r.found.alias = ""
	}
}

// follow returns the router that is mounted at patterns, nil if there is none.
func (r *request) follow(router *chi.Mux, patterns []string) *chi.Mux {
	for _, pattern := range patterns {
		if router = r.mounts.of(router, pattern).router; router == nil {
			break
		}
	}
	return router
}

// Value implements [keyfuncs.Request].
func (r *request) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	return r.Request.Value(key)
}
