package echolimit_test

import (
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/internal/test/echotest"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var framework echotest.Framework[ctx, echo.MiddlewareFunc] = echo4{}

// echo4 is Echo 4.
type echo4 struct{}

type (
	ctx     = echo.Context
	config  = echotest.Config[ctx]
	handler = func(ctx) error
)

func (echo4) Name() string { return "echolimit" }

func (echo4) App(o echotest.Options[ctx]) echotest.App[ctx, echo.MiddlewareFunc] {
	e := echo.New()
	e.Logger.SetOutput(io.Discard) // of Recover
	if o.ErrorHandler != nil {
		e.HTTPErrorHandler = o.ErrorHandler
	}
	if o.Address == echotest.Direct {
		e.IPExtractor = echo.ExtractIPDirect()
	}
	return app{e}
}

func (echo4) Error(status int, text string) error {
	if text == "" {
		return echo.NewHTTPError(status)
	}
	return echo.NewHTTPError(status, text)
}

func (echo4) Response(c ctx) http.ResponseWriter { return c.Response() }

func (echo4) Sent(c ctx) (status int, size int64, committed bool) {
	r := c.Response()
	return r.Status, r.Size, r.Committed
}

func (echo4) Middleware(f func(ctx, func(ctx) error) error) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c ctx) error { return f(c, next) }
	}
}

func (echo4) Recover() echo.MiddlewareFunc             { return middleware.Recover() }
func (echo4) Gzip() echo.MiddlewareFunc                { return middleware.Gzip() }
func (echo4) BodyLimit1K() echo.MiddlewareFunc         { return middleware.BodyLimit("1K") }
func (echo4) RemoveTrailingSlash() echo.MiddlewareFunc { return middleware.RemoveTrailingSlash() }

func (echo4) KeyAuth(lookup string, valid func(string) bool) echo.MiddlewareFunc {
	return middleware.KeyAuthWithConfig(middleware.KeyAuthConfig{
		KeyLookup: lookup,
		Validator: func(key string, _ ctx) (bool, error) { return valid(key), nil },
	})
}

// exported is what the package exports.
var exported = limittest.Adapter[echo.MiddlewareFunc, echolimit.Config, *echolimit.Settings, *echolimit.Guard]{
	Limit: echolimit.Limit, New: echolimit.New, With: echolimit.With, Measure: echolimit.Measure,
	Config: func(l limittest.Layer) echolimit.Config {
		return echolimit.Config(echotest.ConfigOf(l, framework.Response, echolimit.Deny))
	},
}

func (echo4) Limit(store core.Store, limits ...core.Limit) echo.MiddlewareFunc {
	return echolimit.Limit(store, limits...)
}

func (echo4) New(limiter *core.Limiter, own config) echo.MiddlewareFunc {
	return echolimit.New(limiter, echolimit.Config(own))
}

func (echo4) Guard(c core.Config, own config, limits ...core.Limit) echotest.Guard[ctx] {
	return echolimit.With(c, echolimit.Config(own)).Guard(limits...)
}

func (echo4) Of(layers ...limittest.Layer) []echo.MiddlewareFunc {
	return exported.Middleware(layers...)
}

func (echo4) GuardOf(s *limittest.Settings, limits ...core.Limit) any {
	return exported.Guard(s, limits...)
}

func (echo4) FromContext(c ctx) (core.Decision, bool)           { return echolimit.FromContext(c) }
func (echo4) Charge(c ctx, n int64, limits ...string) error     { return echolimit.Charge(c, n, limits...) }
func (echo4) Key(kind string, f func(ctx) string) keyfuncs.Func { return echolimit.Key(kind, f) }
func (echo4) Matches(f func(ctx) bool) keyfuncs.Condition       { return echolimit.Matches(f) }

// app is an echotest.App.
type app struct{ *echo.Echo }

func (a app) Route(method, path string, h handler, m ...echo.MiddlewareFunc) {
	if method == "" {
		a.Any(path, h, m...)
	} else {
		a.Add(method, path, h, m...)
	}
}

func (a app) Group(prefix string, m ...echo.MiddlewareFunc) echotest.Router[ctx, echo.MiddlewareFunc] {
	return group{a.Echo.Group(prefix, m...)}
}

type group struct{ *echo.Group }

func (g group) Route(method, path string, h handler, m ...echo.MiddlewareFunc) {
	g.Add(method, path, h, m...)
}
