package fiberlimit

import (
	"net/http"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/fiberhttp"
)

// Here is what Fiber 2 does in another way than Fiber 3. All other files, but doc.go, are written once:
// fiber3limit has copies, by make twins.

// everything is the path of Use that matches all requests.
const everything = "/"

// replacesRoutes says that an application can replace its routes while it serves.
const replacesRoutes = false

// isAbandoned reports whether a handler may still use c after the middleware around it has answered.
func isAbandoned(*fiber.Ctx) bool { return false }

// watchFor returns no watch: the time-out middleware of Fiber 2 abandons no request that ends by itself.
func watchFor(*fiber.Ctx, *fiberhttp.Following, core.Outcome) *fiberhttp.Watch { return nil }

// isRouted reports whether a route has answered.
func isRouted(*fiber.Ctx) bool { return true }

// isForgotten reports whether the response to a request that no route has answered is reused already.
func isForgotten(*fasthttp.Response) bool { return false }

// matching is the configuration of an app that matches requests as one with config does.
func matching(config fiber.Config) fiber.Config {
	return fiber.Config{
		CaseSensitive:  config.CaseSensitive,
		StrictRouting:  config.StrictRouting,
		UnescapePath:   config.UnescapePath,
		RequestMethods: config.RequestMethods,
	}
}

// fieldSearch looks for fields of limiters in a response.
type fieldSearch struct {
	found bool
	look  func(name, value []byte) // made once, since each would be an allocation
}

func (s *fieldSearch) init() {
	s.look = func(name, _ []byte) { s.found = s.found || fiberhttp.IsWritten(name) }
}

func (s *fieldSearch) finds(h *fasthttp.ResponseHeader) bool {
	s.found = false
	h.VisitAll(s.look)
	return s.found
}

// source is a request as fiberhttp reads it.
type source request

var _ fiberhttp.Source = (*source)(nil)

func (s *source) Block() []byte              { return s.c.Request().Header.RawHeaders() }
func (s *source) Host() []byte               { return s.c.Context().URI().Host() }
func (s *source) Lines(name string) [][]byte { return s.c.Request().Header.PeekAll(name) }
func (s *source) ExactNames() bool           { return s.settings.exactNames }
func (s *source) Streams() bool              { return s.settings.streams }

func (s *source) VisitTrailer(add func(name []byte)) { s.c.Request().Header.VisitAllTrailer(add) }

func (s *source) Visit(kind fiberhttp.Kind, add func(name, value []byte)) {
	switch header := &s.c.Request().Header; kind {
	case fiberhttp.Header:
		header.VisitAll(add)
	case fiberhttp.Cookie:
		header.VisitAllCookie(add)
	case fiberhttp.Query:
		s.c.Context().QueryArgs().VisitAll(add)
	}
}

// FrameworkRisk says whether that address can be forged. Fiber takes the left end of
// X-Forwarded-For, which the client writes, even from proxies that it trusts.
func (r *request) FrameworkRisk() string {
	config := r.c.App().Config()
	switch {
	case config.ProxyHeader == "":
		return ""
	case http.CanonicalHeaderKey(config.ProxyHeader) == fiber.HeaderXForwardedFor:
		return "Fiber believes what clients write into X-Forwarded-For, so ClientIP(Framework()) can be forged; name the proxies in ClientIP"
	case !config.EnableTrustedProxyCheck:
		return "Fiber believes " + config.ProxyHeader + " from every peer, so ClientIP(Framework()) can be forged; set EnableTrustedProxyCheck, or name the proxies in ClientIP"
	}
	return ""
}
