package echolimit

import (
	"slices"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a keyfuncs.Request. Its context is that of c.Request(): c itself is
// reused for other requests and must not outlive this one.
type request struct {
	stdhttp.Request
	c      echo.Context
	place  *place
	memory stdhttp.Memory
}

var _ keyfuncs.Request = (*request)(nil)

// requests are reused: they are wider than a pointer, so each would be an allocation.
var requests = sync.Pool{New: func() any { return new(request) }}

// acquire returns c as keys read it, until release.
func acquire(c echo.Context, place *place) *request {
	r := requests.Get().(*request)
	r.Request, r.c, r.place = stdhttp.Of(c.Request()), c, place
	return r
}

// release forgets c, and keeps r for another request.
func (r *request) release() {
	r.Request, r.c, r.place = stdhttp.Request{}, nil, nil
	requests.Put(r)
}

// Route returns the template of the route, which Echo knows before it calls any middleware except
// that of Pre. If only other methods have a route, Echo answers with 405, or to OPTIONS, and
// has the template of such a route: that counts as no route.
func (r *request) Route() (template string, known bool) {
	template = r.c.Path()
	switch {
	case template == "":
		return "", r.place.routed()
	case r.c.Get(echo.ContextKeyHeaderAllow) != nil:
		return "", true
	}
	return template, true
}

// HasRoute is for advice. Routers of hosts do not list their routes.
func (r *request) HasRoute(method, template string) bool {
	if len(r.c.Echo().Routers()) > 0 {
		return true
	}
	return slices.ContainsFunc(r.c.Echo().Routes(), func(route *echo.Route) bool {
		return route.Path == template && stdhttp.TakesMethod(route.Method, method)
	})
}

// EachRoute is for advice.
func (r *request) EachRoute(yield func(string) bool) {
	for _, route := range r.c.Echo().Routes() {
		if !yield(route.Method + " " + route.Path) {
			return
		}
	}
}

// RouteRemedy is for advice.
func (r *request) RouteRemedy() string { return r.place.remedy() }

// Param returns a parameter of the path.
func (r *request) Param(name string) (string, bool) {
	return r.c.Param(name), slices.Contains(r.c.ParamNames(), name)
}

// FrameworkIP returns the client's address according to Echo, for keyfuncs.Framework.
func (r *request) FrameworkIP() string { return r.c.RealIP() }

// FrameworkRisk asks Echo's extractor for the address of a forged request, from a peer that no
// sensible configuration trusts.
func (r *request) FrameworkRisk() string {
	extract := r.c.Echo().IPExtractor
	forged, headers := stdhttp.Forged()
	switch {
	case extract == nil:
		return "Echo without an IPExtractor believes " + headers + " from every peer, so ClientIP(Framework()) can be forged; set one, or name the proxies in ClientIP"
	case extract(forged) == stdhttp.ForgedIP:
		return "Echo's IPExtractor believes " + headers + " from every peer, so ClientIP(Framework()) can be forged; use one that names the proxies, or name them in ClientIP"
	}
	return ""
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
