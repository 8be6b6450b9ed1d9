package echo5limit

import (
	"slices"
	"sync"

	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a keyfuncs.Request. Its context is that of c.Request(): c itself is
// reused for other requests and must not outlive this one.
type request struct {
	stdhttp.Request
	c      *echo.Context
	memory stdhttp.Memory
}

var _ keyfuncs.Request = (*request)(nil)

// requests are reused: they are wider than a pointer, so each would be an allocation.
var requests = sync.Pool{New: func() any { return new(request) }}

// acquire returns c as keys read it, until release.
func acquire(c *echo.Context) *request {
	r := requests.Get().(*request)
	r.Request, r.c = stdhttp.Of(c.Request()), c
	return r
}

// release forgets c, and keeps r for another request.
func (r *request) release() {
	r.Request, r.c = stdhttp.Request{}, nil
	requests.Put(r)
}

// Route returns the template of the route, which Echo knows before it calls any middleware except
// that of Pre. If only other methods have a route, Echo answers with 405, or to OPTIONS, and
// has the template of such a route: that counts as no route.
func (r *request) Route() (template string, known bool) {
	template = r.c.Path()
	switch {
	case template == "":
		return "", r.routed()
	case r.c.Get(echo.ContextKeyHeaderAllow) != nil:
		return "", true
	}
	return template, true
}

// routed reports whether Echo has routed a request without a template. Its router then gives it a
// route for "not found", which has a name; before, in Pre, there is none.
func (r *request) routed() bool { return r.c.RouteInfo().Name != "" }

// HasRoute is for advice.
func (r *request) HasRoute(method, template string) bool {
	return slices.ContainsFunc(r.c.Echo().Router().Routes(), func(route echo.RouteInfo) bool {
		return route.Path == template && stdhttp.TakesMethod(route.Method, method)
	})
}

// EachRoute is for advice.
func (r *request) EachRoute(yield func(string) bool) {
	for _, route := range r.c.Echo().Router().Routes() {
		if !yield(route.Method + " " + route.Path) {
			return
		}
	}
}

// RouteRemedy is for advice.
func (r *request) RouteRemedy() string {
	return "put the limiter into Use, or on the route, rather than into Pre"
}

// Param returns a parameter of the path.
func (r *request) Param(name string) (string, bool) {
	for _, value := range r.c.PathValues() {
		if value.Name == name {
			return value.Value, true
		}
	}
	return "", false
}

// FrameworkIP returns the client's address according to Echo, for keyfuncs.Framework.
func (r *request) FrameworkIP() string { return r.c.RealIP() }

// FrameworkRisk asks Echo's extractor for the address of a forged request, from a peer that no
// sensible configuration trusts. Without an extractor Echo takes the peer.
func (r *request) FrameworkRisk() string {
	e := r.c.Echo()
	if e == nil || e.IPExtractor == nil {
		return ""
	}
	forged, headers := stdhttp.Forged()
	if e.IPExtractor(forged) != stdhttp.ForgedIP {
		return ""
	}
	return "Echo's IPExtractor believes " + headers + " from every peer, so ClientIP(Framework()) can be forged; use one that names the proxies, or name them in ClientIP"
}

// Value looks into Echo's own locals first, whose keys are strings.
func (r *request) Value(key any) any {
	if name, ok := key.(string); ok {
		if value := r.c.Get(name); value != nil {
			return value
		}
	}
	return r.Request.Value(key)
}
