package ginlimit

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a keyfuncs.Request, one pointer wide so that making an interface of
// it does not allocate. Its context is that of c.Request: c itself is reused for
// other requests and must not outlive this one.
type request struct{ c *gin.Context }

var _ keyfuncs.Request = request{}

func (r request) std() stdhttp.Request { return stdhttp.Of(r.c.Request) }

func (r request) Context() context.Context              { return r.std().Context() }
func (r request) Method() string                        { return r.std().Method() }
func (r request) Path() string                          { return r.std().Path() }
func (r request) Route() (string, bool)                 { return r.c.FullPath(), true } // Gin routes before any middleware
func (r request) Peer() netip.Addr                      { return r.std().Peer() }
func (r request) Header(n string, i int) (string, bool) { return r.std().Header(n, i) }
func (r request) Query(n string, i int) (string, bool)  { return r.std().Query(n, i) }

// HTTPRequest is for keys of package nethttp.
func (r request) HTTPRequest() *http.Request { return r.c.Request }

// Cookie unescapes as c.Cookie does. Otherwise one session could be written in
// many ways that the application reads as the same, each a bucket of its own.
func (r request) Cookie(name string, i int) (string, bool) {
	value, ok := r.std().Cookie(name, i)
	if strings.ContainsAny(value, "%+") {
		value, _ = url.QueryUnescape(value) // "" on error, as in c.Cookie
	}
	return value, ok
}

// Param returns a parameter of the path.
func (r request) Param(name string) (string, bool) { return r.c.Params.Get(name) }

// FrameworkIP returns the client's address according to Gin, for keyfuncs.Framework.
func (r request) FrameworkIP() string { return r.c.ClientIP() }

// engine returns the engine if it is the server's handler: its requests do not name it.
func (r request) engine() *gin.Engine {
	server, _ := r.c.Request.Context().Value(http.ServerContextKey).(*http.Server)
	if server == nil {
		return nil
	}
	engine, _ := server.Handler.(*gin.Engine)
	return engine
}

// HasRoute is for advice. It says yes where the engine is not known.
func (r request) HasRoute(method, template string) bool {
	engine := r.engine()
	return engine == nil || slices.ContainsFunc(engine.Routes(), func(route gin.RouteInfo) bool {
		return route.Path == template && stdhttp.TakesMethod(route.Method, method)
	})
}

// EachRoute is for advice.
func (r request) EachRoute(yield func(string) bool) {
	if engine := r.engine(); engine != nil {
		for _, route := range engine.Routes() {
			if !yield(route.Method + " " + route.Path) {
				return
			}
		}
	}
}

// FrameworkRisk asks Gin for the address of a forged request, from a peer that no sensible
// configuration trusts. By default Gin believes its headers.
func (r request) FrameworkRisk() string {
	c := r.c.Copy() // with the engine, which is where the setting is
	var risk string
	if c.Request, risk = stdhttp.Forged(); c.ClientIP() == stdhttp.ForgedIP {
		return "Gin believes " + risk + " from every peer, so ClientIP(Framework()) can be forged; call SetTrustedProxies, or name the proxies in ClientIP"
	}
	return ""
}

// Value looks into Gin's own locals first. c.Value does so for all types of keys
// that the release of Gin in use allows.
func (r request) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	if value := r.c.Value(key); value != nil {
		return value
	}
	return r.std().Value(key)
}
