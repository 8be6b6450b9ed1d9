package fiber3limit

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/proxy"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/gofiber/fiber/v3/middleware/static"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/fibertest"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var framework fibertest.Framework[ctx] = fiber3{}

// fiber3 is Fiber 3.
type fiber3 struct{}

type (
	ctx    = fiber.Ctx
	config = fibertest.Config[ctx]
)

func (fiber3) Name() string { return "fiber3limit" }

func (fiber3) App(o fibertest.Options[ctx]) fibertest.App[ctx] {
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

func (fiber3) Error(status int, text string) error { return fiber.NewError(status, text) }

func (fiber3) Context(c ctx) context.Context           { return c.Context() }
func (fiber3) SetContext(to context.Context, c ctx)    { c.SetContext(to) }
func (fiber3) Conn(c ctx) net.Conn                     { return c.RequestCtx().Conn() }
func (fiber3) SetPeer(c ctx, addr net.Addr)            { c.RequestCtx().SetRemoteAddr(addr) }
func (fiber3) Route(c ctx) (any, string)               { return c.Route(), c.Route().Path }
func (fiber3) Request(c ctx) fibertest.RequestHeader   { return &c.Request().Header }
func (fiber3) Response(c ctx) fibertest.ResponseHeader { return &c.Response().Header }
func (fiber3) Answer(c ctx) (int, []byte)              { return c.Response().StatusCode(), c.Response().Body() }

func (fiber3) Stream(c ctx, writer func(*bufio.Writer)) { c.RequestCtx().SetBodyStreamWriter(writer) }
func (fiber3) Proxy(c ctx, url string) error            { return proxy.Do(c, url) }
func (fiber3) Recover() func(ctx) error                 { return recover.New() }

func (fiber3) Hijack(c ctx, handler func(net.Conn)) {
	c.RequestCtx().HijackSetNoResponse(true)
	c.RequestCtx().Hijack(handler)
}

func (fiber3) Limit(store core.Store, limits ...core.Limit) func(ctx) error {
	return Limit(store, limits...)
}

func (fiber3) New(limiter *core.Limiter, configs ...config) func(ctx) error {
	return New(limiter, own(configs)...)
}

func (fiber3) With(c core.Config, configs ...config) func(...core.Limit) fibertest.Guard[ctx] {
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

func (fiber3) Middleware(layers ...limittest.Layer) []func(ctx) error {
	return exported.Middleware(layers...)
}

func (fiber3) Guard(s *limittest.Settings, limits ...core.Limit) any {
	return exported.Guard(s, limits...)
}

func (fiber3) FromContext(c ctx) (core.Decision, bool)           { return FromContext(c) }
func (fiber3) Charge(c ctx, n int64, limits ...string) error     { return Charge(c, n, limits...) }
func (fiber3) Key(kind string, f func(ctx) string) keyfuncs.Func { return Key(kind, f) }
func (fiber3) Matches(f func(ctx) bool) keyfuncs.Condition       { return Matches(f) }

func (fiber3) Reader() func(ctx) (keyfuncs.Request, func()) {
	var known routes
	var cache settingsCache
	return func(c ctx) (keyfuncs.Request, func()) {
		r := acquire(c, &known, cache.of(c))
		return r, r.release
	}
}

func (fiber3) Foresight() func(ctx) ([]string, bool) {
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

func (fiber3) PreforkVariable() string { return "FASTHTTP_PREFORK_CHILD" }

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
