// Code generated from fiberlimit/framework_test.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"bufio"
	"context"
	"net"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/proxy"
	"github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/fibertest"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var framework fibertest.Framework[ctx] = major{}

// major is this major of Fiber.
type major struct{}

type (
	ctx    = fiber.Ctx
	config = fibertest.Config[ctx]
)

func (major) Name() string { return "fiber3limit" }

func (major) Error(status int, text string) error { return fiber.NewError(status, text) }

func (major) Context(c ctx) context.Context           { return c.Context() }
func (major) SetContext(to context.Context, c ctx)    { c.SetContext(to) }
func (major) Conn(c ctx) net.Conn                     { return c.RequestCtx().Conn() }
func (major) SetPeer(c ctx, addr net.Addr)            { c.RequestCtx().SetRemoteAddr(addr) }
func (major) Route(c ctx) (any, string)               { return c.Route(), c.Route().Path }
func (major) Request(c ctx) fibertest.RequestHeader   { return &c.Request().Header }
func (major) Response(c ctx) fibertest.ResponseHeader { return &c.Response().Header }
func (major) Answer(c ctx) (int, []byte)              { return c.Response().StatusCode(), c.Response().Body() }

func (major) Stream(c ctx, writer func(*bufio.Writer)) { c.RequestCtx().SetBodyStreamWriter(writer) }
func (major) Proxy(c ctx, url string) error            { return proxy.Do(c, url) }
func (major) Recover() func(ctx) error                 { return recover.New() }

func (major) Hijack(c ctx, handler func(net.Conn)) {
	c.RequestCtx().HijackSetNoResponse(true)
	c.RequestCtx().Hijack(handler)
}

func (major) Limit(store core.Store, limits ...core.Limit) func(ctx) error {
	return Limit(store, limits...)
}

func (major) New(limiter *core.Limiter, configs ...config) func(ctx) error {
	return New(limiter, own(configs)...)
}

func (major) With(c core.Config, configs ...config) func(...core.Limit) *fibertest.Guard[ctx] {
	settings := With(c, own(configs)...)
	return settings.Guard
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
	Limit: Limit, New: New, With: With,
	Config: func(l limittest.Layer) Config { return Config(fibertest.ConfigOf(l, Deny)) },
}

func (major) Middleware(layers ...limittest.Layer) []func(ctx) error {
	return exported.Middleware(layers...)
}

func (major) Guard(s *limittest.Settings, limits ...core.Limit) any {
	return exported.Guard(s, limits...)
}

func (major) FromContext(c ctx) (core.Decision, bool)           { return FromContext(c) }
func (major) Key(kind string, f func(ctx) string) keyfuncs.Func { return Key(kind, f) }
func (major) Matches(f func(ctx) bool) keyfuncs.Condition       { return Matches(f) }

func (major) Reader() func(ctx) (keyfuncs.Request, func()) {
	var known routes
	var cache settingsCache
	return func(c ctx) (keyfuncs.Request, func()) {
		r := acquire(c, &known, cache.of(c))
		return r, r.release
	}
}

func (major) Foresight() func(ctx) ([]string, bool) {
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
