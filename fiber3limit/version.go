package fiber3limit

import (
	"net/http"
	"net/netip"
	"slices"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/fiberhttp"
)

// Here is what Fiber 3 does in another way than Fiber 2. The files that say they are generated are copies of
// those of fiberlimit, by make twins.

// everything is the path of Use that matches all requests, also those without a path.
const everything = "*"

// replacesRoutes says that an application can replace its routes while it serves, by RemoveRoute and RebuildTree.
const replacesRoutes = true

// isAbandoned reports whether a handler may still use c after the middleware around it has answered.
func isAbandoned(c fiber.Ctx) bool { return c.IsAbandoned() }

// watchFor settles a request whose handler has returned with outcome o if the time-out middleware around
// the limiter abandons it all the same: it answered, and could not see both at once. What OnTimeout wrote is then
// still being written, so the status is the usual one.
func watchFor(c fiber.Ctx, f *fiberhttp.Following, o core.Outcome) *fiberhttp.Watch {
	ctx := c.RequestCtx()
	o.TimedOut, o.Canceled, o.Status = true, false, fiber.StatusRequestTimeout
	return fiberhttp.NewWatch(f.Context, func() bool {
		// Before the watch ends c may serve another request, which has another RequestCtx. Only when c is
		// abandoned does nobody change it at the same time.
		return c.IsAbandoned() && c.RequestCtx() == ctx
	}, func() { f.Settle(o) })
}

// isRouted reports whether a route has answered.
func isRouted(c fiber.Ctx) bool { return c.Matched() }

// isForgotten reports whether fasthttp has already forgotten a response when it forgets the request. It
// does so after a request that it could not read: Fiber calls the handlers of Use for it, no route,
// and answers with an error.
func isForgotten(r *fasthttp.Response) bool {
	if r.StatusCode() != fiber.StatusOK || r.IsBodyStream() || len(r.Body()) > 0 {
		return false
	}
	for name := range r.Header.All() {
		if string(name) != fiber.HeaderContentType { // which has a default
			return false
		}
	}
	return true
}

// matching is the configuration of an app that matches requests as one with config does.
func matching(config fiber.Config) fiber.Config {
	return fiber.Config{
		CaseSensitive:  config.CaseSensitive,
		StrictRouting:  config.StrictRouting,
		UnescapePath:   config.UnescapePath,
		RequestMethods: config.RequestMethods,

		DisableHeadAutoRegister: true, // the app has its own by now
	}
}

// fieldSearch looks for fields of limiters in a response.
type fieldSearch struct{}

func (fieldSearch) init() {}

func (fieldSearch) finds(h *fasthttp.ResponseHeader) bool {
	for name := range h.All() {
		if fiberhttp.IsWritten(name) {
			return true
		}
	}
	return false
}

// source is a request as fiberhttp reads it.
type source request

var _ fiberhttp.Source = (*source)(nil)

func (s *source) Block() []byte              { return s.c.Request().Header.RawHeaders() }
func (s *source) Host() []byte               { return s.c.RequestCtx().URI().Host() }
func (s *source) Lines(name string) [][]byte { return s.c.Request().Header.PeekAll(name) }
func (s *source) ExactNames() bool           { return s.settings.exactNames }
func (s *source) Streams() bool              { return s.settings.streams }

func (s *source) VisitTrailer(add func(name []byte)) {
	for name := range s.c.Request().Header.Trailers() {
		add(name)
	}
}

func (s *source) Visit(kind fiberhttp.Kind, add func(name, value []byte)) {
	switch header := &s.c.Request().Header; kind {
	case fiberhttp.Header:
		for name, value := range header.All() {
			add(name, value)
		}
	case fiberhttp.Cookie:
		for name, value := range header.Cookies() {
			add(name, value)
		}
	case fiberhttp.Query:
		for name, value := range s.c.RequestCtx().QueryArgs().All() {
			add(name, value)
		}
	}
}

// FrameworkRisk says whether that address can be forged. Fiber reads ProxyHeader only from proxies
// that it trusts, but takes the left end of X-Forwarded-For, which the client writes.
func (r *request) FrameworkRisk() string {
	config := r.c.App().Config()
	switch {
	case config.ProxyHeader == "" || !config.TrustProxy:
		return ""
	case http.CanonicalHeaderKey(config.ProxyHeader) == fiber.HeaderXForwardedFor:
		return "Fiber believes what clients write into X-Forwarded-For, so ClientIP(Framework()) can be forged; name the proxies in ClientIP"
	case slices.ContainsFunc(config.TrustProxyConfig.Proxies, isEverybody):
		return "Fiber's TrustProxyConfig trusts every address and so believes " + config.ProxyHeader + " from every peer: ClientIP(Framework()) can be forged; name only the proxies there, or name them in ClientIP"
	}
	return ""
}

// isEverybody reports whether a trusted proxy is a range of all addresses.
func isEverybody(proxy string) bool {
	prefix, err := netip.ParsePrefix(proxy)
	return err == nil && prefix.Bits() == 0
}
