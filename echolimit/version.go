package echolimit

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Here, in follow.go and in place.go is what Echo 4 does in another way than Echo 5. All other files, but doc.go, are
// written once: echo5limit has copies, by make twins.

// denied has the application's hook answer a denial. A body without a status gets that of the
// decision, and a hook that writes nothing and returns no error is answered for as usual.
func (config *Config) denied(c echo.Context, d *core.Decision) error {
	c.Response().Status = d.Status()
	err := config.Denied(c, *d)
	if err == nil && !c.Response().Committed {
		stdhttp.Deny(c.Response(), c.Request(), d)
	}
	return err
}

// isCommitted reports whether the response has begun.
func isCommitted(c echo.Context) bool { return c.Response().Committed }

// writerOf returns what the handler's response is written to.
func writerOf(c echo.Context) http.ResponseWriter { return c.Response().Writer }

func setWriter(c echo.Context, w http.ResponseWriter) { c.Response().Writer = w }

// routesOf also reports whether these are all routes: routers of hosts do not list theirs.
func routesOf(e *echo.Echo) (routes []*echo.Route, complete bool) {
	return e.Routes(), len(e.Routers()) == 0
}

// Param returns a parameter of the path.
func (r *request) Param(name string) (string, bool) {
	return r.c.Param(name), slices.Contains(r.c.ParamNames(), name)
}

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
