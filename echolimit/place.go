package echolimit

import (
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

// place is the place of a middleware: in Pre, before Echo routes, or behind the router. Echo does
// not say which: a request has no route in Pre, and neither has one that no route matches. So the
// place is learned from the first request with a route.
type place struct{ inPre, behind atomic.Bool }

// handlers is the place of a guard: behind the router.
var handlers = func() *place {
	p := new(place)
	p.behind.Store(true)
	return p
}()

// routed reports whether a request without a route has been routed, as far as that
// is known.
func (p *place) routed(echo.Context) bool { return p.behind.Load() }

// watch learns the place from a request, and returns the handler to call next.
func (p *place) watch(c echo.Context, next echo.HandlerFunc) echo.HandlerFunc {
	switch {
	case c.Path() != "":
		if !p.behind.Load() {
			p.behind.Store(true)
		}
	case !p.inPre.Load() && !p.behind.Load():
		return func(c echo.Context) error {
			err := next(c)
			if c.Path() != "" {
				p.inPre.Store(true)
			}
			return err
		}
	}
	return next
}

// remedy is for advice: there is none while it is not known that one is needed.
func (p *place) remedy() string {
	if !p.inPre.Load() {
		return ""
	}
	return "put the limiter into Use, or on the route, rather than into Pre"
}
