package echo5limit

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Here and in follow.go is what Echo 5 does in another way than Echo 4. The files that say they are generated are
// copies of those of echolimit, by make twins.

// place is the place of a middleware: in Pre, before Echo routes, or behind the router. A request says which.
type place struct{}

// handlers is the place of a guard.
var handlers = new(place)

// watch has nothing to learn.
func (*place) watch(_ *echo.Context, next echo.HandlerFunc) echo.HandlerFunc { return next }

// routed reports whether Echo has routed a request without a template. Its router then gives it a
// route for "not found", which has a name; before, in Pre, there is none.
func (*place) routed(c *echo.Context) bool { return c.RouteInfo().Name != "" }

// remedy is for advice.
func (*place) remedy() string {
	return "put the limiter into Use, or on the route, rather than into Pre"
}

// denied has the application's hook answer a denial. A body without a status gets that of the
// decision, and a hook that writes nothing and returns no error is answered for as usual.
func (config *Config) denied(c *echo.Context, d *core.Decision) (err error) {
	w, answered := c.Response(), false
	if own, foreign := echo.UnwrapResponse(w); foreign == nil {
		own.Status = d.Status()
		err = config.Denied(c, *d)
		answered = own.Committed
	} else { // a response that somebody has put in its place does not say what was sent
		answered = stdhttp.Answered(w, d, func(watched http.ResponseWriter) {
			c.SetResponse(watched)
			err = config.Denied(c, *d)
		})
		c.SetResponse(w)
	}
	if err == nil && !answered {
		stdhttp.Deny(c.Response(), c.Request(), d)
	}
	return err
}

// isCommitted reports whether the response has begun, as far as that is known.
func isCommitted(c *echo.Context) bool {
	own, err := echo.UnwrapResponse(c.Response())
	return err == nil && own.Committed
}

// writerOf returns what the handler's response is written to.
func writerOf(c *echo.Context) http.ResponseWriter { return c.Response() }

func setWriter(c *echo.Context, w http.ResponseWriter) { c.SetResponse(w) }

// routesOf also reports whether these are all routes. A context that was made without an Echo knows none.
func routesOf(e *echo.Echo) (routes echo.Routes, complete bool) {
	if e == nil {
		return nil, false
	}
	return e.Router().Routes(), true
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
