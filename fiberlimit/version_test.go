package fiberlimit

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/internal/test/fibertest"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

var differences = limittest.Differences{RoutesInFront: true, RefusesMethods: http.StatusBadRequest, Fasthttp: true, OnlyHTTP1: true, Blind: true}

func (major) App(o fibertest.Options[ctx]) fibertest.App[ctx] {
	f := fiber.New(fiber.Config{
		CaseSensitive: o.CaseSensitive, StrictRouting: o.StrictRouting, UnescapePath: o.UnescapePath,
		DisableHeaderNormalizing: o.ExactNames, DisablePreParseMultipartForm: o.NoPreParse, StreamRequestBody: o.StreamRequestBody,
		BodyLimit: o.BodyLimit, ReadBufferSize: o.ReadBufferSize,
		ProxyHeader: o.ProxyHeader, EnableTrustedProxyCheck: o.Proxies != nil, TrustedProxies: o.Proxies, EnableIPValidation: o.EnableIPValidation,
		ErrorHandler: o.ErrorHandler, Prefork: o.Prefork, DisableStartupMessage: true,
	})
	return app{router{f}, f}
}

func (major) PreforkVariable() string { return "FIBER_PREFORK_CHILD" }

// app is a fibertest.App.
type app struct {
	router
	f *fiber.App
}

func (a app) Mount(prefix string, sub fibertest.App[ctx])  { a.f.Mount(prefix, sub.(app).f) }
func (a app) Files(prefix, folder string)                  { a.f.Static(prefix, folder) }
func (a app) Test(r *http.Request) (*http.Response, error) { return a.f.Test(r, -1) }

func (a app) ServeConn(conn net.Conn) error {
	a.f.Handler() // prepares the app to serve
	return a.f.Server().ServeConn(conn)
}

func (a app) Serve(l net.Listener) error {
	// Outcomes waits until every goroutine has ended. By default idle workers take 20 s.
	a.f.Server().MaxIdleWorkerDuration = 100 * time.Millisecond
	return a.f.Listener(l)
}

func (a app) Listen(addr string) error { return a.f.Listen(addr) }

func (a app) Shutdown() error { return a.f.ShutdownWithTimeout(2 * time.Minute) }

// router is a fibertest.Router.
type router struct{ fiber.Router }

func (r router) Use(path string, handlers ...func(ctx) error) {
	var args []any
	if path != "" {
		args = append(args, path)
	}
	for _, h := range handlers {
		args = append(args, h)
	}
	r.Router.Use(args...)
}

func (r router) Add(method, path string, handlers ...func(ctx) error) {
	if method == "" {
		r.All(path, handlers...)
	} else {
		r.Router.Add(method, path, handlers...)
	}
}

func (r router) Get(path string, handlers ...func(ctx) error) { r.Router.Get(path, handlers...) }

func (r router) Group(prefix string, handlers ...func(ctx) error) fibertest.Router[ctx] {
	return router{r.Router.Group(prefix, handlers...)}
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
		{options{ProxyHeader: "x-forwarded-for", Proxies: proxies, EnableIPValidation: true}, true},
		{options{ProxyHeader: "X-Real-IP"}, true},
		{options{ProxyHeader: "X-Real-IP", Proxies: proxies}, false},
	} {
		fibertest.Risk(t, framework, tt.options, tt.risky)
	}
}
