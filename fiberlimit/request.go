package fiberlimit

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/fiberhttp"
	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a keyfuncs.Request. Its strings alias Fiber's buffers, which the next request on the
// connection overwrites. Whatever keeps one must copy it, as keys do.
type request struct {
	c        *fiber.Ctx
	routes   *routes
	asked    bool
	route    string // once asked
	known    bool
	settings *settings
	fields   fiberhttp.Fields
	context  context.Context // once asked
	headers  adapter.HeaderRoom
	scratch  adapter.Scratch
	own      adapter.Context // of a decision that ends before the handler runs; see Config.NoContext
	response fieldSearch     // for fields of other limiters
}

var (
	_ keyfuncs.Request = (*request)(nil)
	_ keyfuncs.Forks   = (*request)(nil)
)

// requests are reused: they are wider than a pointer, so each would be an allocation.
var requests = sync.Pool{New: func() any {
	r := new(request)
	r.fields.Init()
	r.response.init()
	return r
}}

// acquire returns c as keys read it, until release.
func acquire(c *fiber.Ctx, routes *routes, s *settings) *request {
	r := requests.Get().(*request)
	r.c, r.routes, r.settings = c, routes, s
	return r
}

// release forgets c, and keeps r for another request.
func (r *request) release() {
	r.c, r.routes, r.settings = nil, nil, nil
	r.asked, r.route, r.known, r.context = false, "", false, nil
	r.fields.Reset()
	requests.Put(r)
}

// Context returns the user context: the request's own is reused.
func (r *request) Context() context.Context {
	if r.context == nil {
		r.context = r.c.UserContext()
	}
	return r.context
}

// Method returns the method that Fiber routes by.
func (r *request) Method() string { return r.c.Method() }

// Path returns the path before Fiber unescapes it or folds its case.
func (r *request) Path() string {
	return utils.UnsafeString(r.c.Context().URI().PathOriginal())
}

// Route returns the template of the route that the limiter is on, otherwise of the first route
// further in that matches. If there is no route below a prefix of Use or Group, a handler of Use
// may answer. Then the route is not known, and the template covers the prefix.
func (r *request) Route() (template string, known bool) {
	if !r.asked {
		r.asked = true
		r.route, r.known = r.find()
	}
	return r.route, r.known
}

func (r *request) find() (template string, known bool) {
	t := r.routes.table(r.c.App())
	here, ok := t.at(r.c)
	switch {
	case !ok:
		return "", false
	case !here.prefix:
		return here.template, true
	case here.empty:
		return here.template, false
	}
	s := t.search(r.c, here.position)
	defer s.end()
	template = s.next()
	return template, template != "" || !r.routes.rewritten.Load()
}

// MayReach reports the routes that match after the first, which c.Next reaches. If there are none,
// it reports the prefixes of handlers of Use, such as those for static files.
func (r *request) MayReach(template string) bool {
	t := r.routes.table(r.c.App())
	if r.asked && r.route == "" && t.covers(template, r.c) {
		return true
	}
	here, ok := t.at(r.c)
	if !ok || !t.templates[template] {
		return false
	}
	s := t.search(r.c, here.position)
	defer s.end()
	for found := s.next(); found != ""; found = s.next() {
		if found == template {
			return true
		}
	}
	return false
}

// HasRoute is for advice.
func (r *request) HasRoute(method, template string) bool {
	return r.routes.table(r.c.App()).prefixes[template] != "" ||
		slices.ContainsFunc(r.c.App().GetRoutes(), func(route fiber.Route) bool {
			return route.Path == template && (method == "" || route.Method == method)
		})
}

// EachRoute is for advice.
func (r *request) EachRoute(yield func(string) bool) {
	for _, route := range r.c.App().GetRoutes(true) {
		if !yield(route.Method + " " + route.Path) {
			return
		}
	}
}

// RouteRemedy is for advice.
func (r *request) RouteRemedy() string {
	switch route, known := r.Route(); {
	case known && route != "":
		return "several routes match, of which one may call c.Next: put the limiter on the route itself"
	case r.routes.rewritten.Load():
		return "put middleware that changes the path or the method before the limiter"
	}
	return "register a route, by Get or All, rather than a handler by Use, and put the limiter on it"
}

// Header returns the i-th line that a header has in the block.
func (r *request) Header(name string, i int) (string, bool) {
	return r.fields.Value((*source)(r), fiberhttp.Header, name, i)
}

// Cookie returns the cookies of which c.Cookies takes the first.
func (r *request) Cookie(name string, i int) (string, bool) {
	return r.fields.Value((*source)(r), fiberhttp.Cookie, name, i)
}

// Query returns the values of which c.Query takes the first.
func (r *request) Query(name string, i int) (string, bool) {
	return r.fields.Value((*source)(r), fiberhttp.Query, name, i)
}

// Peer returns the address of the connection's other end.
func (r *request) Peer() netip.Addr { return fiberhttp.Peer(r.c.Context().RemoteAddr()) }

// Value looks into the locals first.
func (r *request) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	if value := r.c.Locals(key); value != nil {
		return value
	}
	return r.c.UserContext().Value(key)
}

// Param returns a parameter of the route that the limiter is on, or of its prefix in Use.
func (r *request) Param(name string) (string, bool) {
	return r.c.Params(name), slices.Contains(r.c.Route().Params, name)
}

// FrameworkIP returns the client's address according to Fiber, for keyfuncs.Framework. It returns ""
// for a connection without a peer, for which fasthttp has 0.0.0.0, and for an address that may
// come from a trailer.
func (r *request) FrameworkIP() string {
	if r.settings.proxy != "" && r.c.IsProxyTrusted() {
		if r.Header(http.CanonicalHeaderKey(r.settings.proxy), 0); r.fields.Unclear() {
			return ""
		}
	}
	ip := r.c.IP()
	if addr, err := netip.ParseAddr(ip); err == nil && addr.IsUnspecified() {
		return ""
	}
	return ip
}
