// Code generated from echolimit/request.go by make twins; DO NOT EDIT.

package echo5limit

import (
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
	place  *place
	memory stdhttp.Memory
}

var _ keyfuncs.Request = (*request)(nil)

// requests are reused: they are wider than a pointer, so each would be an allocation.
var requests = sync.Pool{New: func() any { return new(request) }}

// acquire returns c as keys read it, until release.
func acquire(c *echo.Context, place *place) *request {
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
		return "", r.place.routed(r.c)
	case r.c.Get(echo.ContextKeyHeaderAllow) != nil:
		return "", true
	}
	return template, true
}

// HasRoute is for advice.
func (r *request) HasRoute(method, template string) bool {
	all, complete := routesOf(r.c.Echo())
	for _, route := range all {
		if route.Path == template && stdhttp.TakesMethod(route.Method, method) {
			return true
		}
	}
	return !complete
}

// EachRoute is for advice.
func (r *request) EachRoute(yield func(string) bool) {
	all, _ := routesOf(r.c.Echo())
	for _, route := range all {
		if !yield(route.Method + " " + route.Path) {
			return
		}
	}
}

// RouteRemedy is for advice.
func (r *request) RouteRemedy() string { return r.place.remedy() }

// FrameworkIP returns the client's address according to Echo, for keyfuncs.Framework.
func (r *request) FrameworkIP() string { return r.c.RealIP() }

// Value looks into Echo's own locals first, whose keys are strings.
func (r *request) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	if name, ok := key.(string); ok {
		if value := r.c.Get(name); value != nil {
			return value
		}
	}
	return r.Request.Value(key)
}
