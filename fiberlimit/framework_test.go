package fiberlimit

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/proxy"
	"github.com/gofiber/fiber/v2/middleware/recover"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/fibertest"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var framework fibertest.Framework[ctx] = fiber2{}

// fiber2 is Fiber 2.
type fiber2 struct{}

type (
	ctx    = *fiber.Ctx
	config = fibertest.Config[ctx]
)

func (fiber2) Name() string { return "fiberlimit" }

func (fiber2) App(o fibertest.Options[ctx]) fibertest.App[ctx] {
	f := fiber.New(fiber.Config{
		CaseSensitive: o.CaseSensitive, StrictRouting: o.StrictRouting, UnescapePath: o.UnescapePath,
		DisableHeaderNormalizing: o.ExactNames, DisablePreParseMultipartForm: o.NoPreParse, StreamRequestBody: o.StreamRequestBody,
		BodyLimit: o.BodyLimit, ReadBufferSize: o.ReadBufferSize,
		ProxyHeader: o.ProxyHeader, EnableTrustedProxyCheck: o.Proxies != nil, TrustedProxies: o.Proxies, EnableIPValidation: o.EnableIPValidation,
		ErrorHandler: o.ErrorHandler, Prefork: o.Prefork, DisableStartupMessage: true,
	})
	return app{router{f}, f}
}

func (fiber2) Error(status int, text string) error { return fiber.NewError(status, text) }

func (fiber2) Context(c ctx) context.Context           { return c.UserContext() }
func (fiber2) SetContext(to context.Context, c ctx)    { c.SetUserContext(to) }
func (fiber2) Conn(c ctx) net.Conn                     { return c.Context().Conn() }
func (fiber2) SetPeer(c ctx, addr net.Addr)            { c.Context().SetRemoteAddr(addr) }
func (fiber2) Route(c ctx) (any, string)               { return c.Route(), c.Route().Path }
func (fiber2) Request(c ctx) fibertest.RequestHeader   { return &c.Request().Header }
func (fiber2) Response(c ctx) fibertest.ResponseHeader { return &c.Response().Header }
func (fiber2) Answer(c ctx) (int, []byte)              { return c.Response().StatusCode(), c.Response().Body() }

func (fiber2) Stream(c ctx, writer func(*bufio.Writer)) { c.Context().SetBodyStreamWriter(writer) }
func (fiber2) Proxy(c ctx, url string) error            { return proxy.Do(c, url) }
func (fiber2) Recover() func(ctx) error                 { return recover.New() }

func (fiber2) Hijack(c ctx, handler func(net.Conn)) {
	c.Context().HijackSetNoResponse(true)
	c.Context().Hijack(handler)
}

func (fiber2) Limit(store core.Store, limits ...core.Limit) func(ctx) error {
	return Limit(store, limits...)
}

func (fiber2) New(limiter *core.Limiter, configs ...config) func(ctx) error {
	return New(limiter, own(configs)...)
}

func (fiber2) With(c core.Config, configs ...config) func(...core.Limit) fibertest.Guard[ctx] {
	settings := With(c, own(configs)...)
	return func(limits ...core.Limit) fibertest.Guard[ctx] { return settings.Guard(limits...) }
}

func own(configs []config) []Config {
	var all []Config
	for _, c := range configs {
		all = append(all, Config(c))
	}
	return all
}

// exported is what the package exports.
var exported = limittest.Adapter[fiber.Handler, Config, *Settings, *Guard]{
	Limit: Limit, New: New, With: With, Measure: Measure,
	Config: func(l limittest.Layer) Config { return Config(fibertest.ConfigOf(l, Deny)) },
}

func (fiber2) Middleware(layers ...limittest.Layer) []func(ctx) error {
	return exported.Middleware(layers...)
}

func (fiber2) Guard(s *limittest.Settings, limits ...core.Limit) any {
	return exported.Guard(s, limits...)
}

func (fiber2) FromContext(c ctx) (core.Decision, bool)           { return FromContext(c) }
func (fiber2) Charge(c ctx, n int64, limits ...string) error     { return Charge(c, n, limits...) }
func (fiber2) Key(kind string, f func(ctx) string) keyfuncs.Func { return Key(kind, f) }
func (fiber2) Matches(f func(ctx) bool) keyfuncs.Condition       { return Matches(f) }

func (fiber2) Reader() func(ctx) (keyfuncs.Request, func()) {
	var known routes
	var cache settingsCache
	return func(c ctx) (keyfuncs.Request, func()) {
		r := acquire(c, &known, cache.of(c))
		return r, r.release
	}
}

func (fiber2) Foresight() func(ctx) ([]string, bool) {
	var known routes
	return func(c ctx) (templates []string, ok bool) {
		t := known.table(c.App())
		here, ok := t.at(c)
		if !ok {
			return nil, false
		}
		s := t.search(c, here.position)
		defer s.end()
		for template := s.next(); template != ""; template = s.next() {
			templates = append(templates, template)
		}
		return templates, true
	}
}

func (fiber2) PreforkVariable() string { return "FIBER_PREFORK_CHILD" }

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
