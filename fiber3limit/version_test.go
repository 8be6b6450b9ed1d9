package fiber3limit

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/static"

	"github.com/weblimit/weblimit/internal/test/fibertest"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

var differences = limittest.Differences{RoutesInFront: true, RefusesMethods: http.StatusNotImplemented, RunsUnread: true, Fasthttp: true, OnlyHTTP1: true, Blind: true}

func (major) App(o fibertest.Options[ctx]) fibertest.App[ctx] {
	proxies := o.Proxies
	if proxies == nil {
		proxies = []string{"0.0.0.0/0"} // Fiber 3 reads no header from others
	}
	f := fiber.New(fiber.Config{
		CaseSensitive: o.CaseSensitive, StrictRouting: o.StrictRouting, UnescapePath: o.UnescapePath,
		DisableHeaderNormalizing: o.ExactNames, DisablePreParseMultipartForm: o.NoPreParse, StreamRequestBody: o.StreamRequestBody,
		BodyLimit: o.BodyLimit, ReadBufferSize: o.ReadBufferSize,
		ProxyHeader: o.ProxyHeader, TrustProxy: o.ProxyHeader != "" && len(proxies) > 0, TrustProxyConfig: fiber.TrustProxyConfig{Proxies: proxies}, EnableIPValidation: o.EnableIPValidation,
		ErrorHandler: o.ErrorHandler,
	})
	return app{router{f}, f, fiber.ListenConfig{EnablePrefork: o.Prefork, DisableStartupMessage: true}}
}

func (major) PreforkVariable() string { return "FASTHTTP_PREFORK_CHILD" }

// app is a fibertest.App.
type app struct {
	router
	f      *fiber.App
	listen fiber.ListenConfig
}

func (a app) Mount(prefix string, sub fibertest.App[ctx])  { a.f.Use(prefix, sub.(app).f) }
func (a app) Files(prefix, folder string)                  { a.f.Use(prefix, static.New(folder)) }
func (a app) Test(r *http.Request) (*http.Response, error) { return a.f.Test(r, fiber.TestConfig{}) }

func (a app) ServeConn(conn net.Conn) error {
	a.f.Handler() // prepares the app to serve
	return a.f.Server().ServeConn(conn)
}

func (a app) Serve(l net.Listener) error {
	// Outcomes waits until every goroutine has ended. By default idle workers take 20 s.
	a.f.Server().MaxIdleWorkerDuration = 100 * time.Millisecond
	return a.f.Listener(l, a.listen)
}

func (a app) Listen(addr string) error { return a.f.Listen(addr, a.listen) }

func (a app) Shutdown() error { return a.f.ShutdownWithTimeout(2 * time.Minute) }

// router is a fibertest.Router.
type router struct{ fiber.Router }

func (r router) Use(path string, handlers ...func(ctx) error) {
	var args []any
	if path != "" {
		args = append(args, path)
	}
	r.Router.Use(append(args, anys(handlers)...)...)
}

func anys(handlers []func(ctx) error) []any {
	all := make([]any, len(handlers))
	for i, h := range handlers {
		all[i] = h
	}
	return all
}

func (r router) Add(method, path string, handlers ...func(ctx) error) {
	args := anys(handlers)
	if method == "" {
		r.All(path, args[0], args[1:]...)
	} else {
		r.Router.Add([]string{method}, path, args[0], args[1:]...)
	}
}

func (r router) Get(path string, handlers ...func(ctx) error) {
	args := anys(handlers)
	r.Router.Get(path, args[0], args[1:]...)
}

func (r router) Group(prefix string, handlers ...func(ctx) error) fibertest.Router[ctx] {
	return router{r.Router.Group(prefix, anys(handlers)...)}
}

func TestFrameworkRisk(t *testing.T) {
	t.Parallel()
	type options = fibertest.Options[ctx]
	proxies := []string{"10.0.0.1"}
	for _, tt := range []struct {
		options options
		risky   bool
	}{
		{options{}, false}, // c.IP is the peer
		{options{ProxyHeader: "X-Forwarded-For"}, true},
		{options{ProxyHeader: "X-Forwarded-For", Proxies: []string{}}, false}, // which no peer may send
		{options{ProxyHeader: "x-forwarded-for", Proxies: proxies, EnableIPValidation: true}, true},
		{options{ProxyHeader: "X-Real-IP", Proxies: []string{"10.0.0.0/8"}}, false},
		{options{ProxyHeader: "X-Real-IP", Proxies: []string{"10.0.0.1", "0.0.0.0/0"}}, true},
	} {
		fibertest.Risk(t, framework, tt.options, tt.risky)
	}
}
