package echo5limit_test

import (
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/internal/test/echotest"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var framework echotest.Framework[ctx, echo.MiddlewareFunc] = echo5{}

// echo5 is Echo 5.
type echo5 struct{}

type (
	ctx     = *echo.Context
	config  = echotest.Config[ctx]
	handler = func(ctx) error
)

func (echo5) Name() string { return "echo5limit" }

func (echo5) App(o echotest.Options[ctx]) echotest.App[ctx, echo.MiddlewareFunc] {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler) // of Recover
	if o.ErrorHandler != nil {
		e.HTTPErrorHandler = func(c ctx, err error) { o.ErrorHandler(err, c) }
	}
	switch o.Address {
	case echotest.Direct:
		e.IPExtractor = echo.ExtractIPDirect()
	case echotest.Trusting:
		e.IPExtractor = echo.LegacyIPExtractor() // which was the default of Echo 4
	}
	return app{e}
}

func (echo5) Error(status int, text string) error {
	return echo.NewHTTPError(status, text)
}

func (echo5) Response(c ctx) http.ResponseWriter { return c.Response() }

func (echo5) Sent(c ctx) (status int, size int64, committed bool) {
	r, err := echo.UnwrapResponse(c.Response())
	if err != nil {
		panic(err)
	}
	return r.Status, r.Size, r.Committed
}

func (echo5) Middleware(f func(ctx, func(ctx) error) error) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c ctx) error { return f(c, next) }
	}
}

func (echo5) Recover() echo.MiddlewareFunc             { return middleware.Recover() }
func (echo5) Gzip() echo.MiddlewareFunc                { return middleware.Gzip() }
func (echo5) BodyLimit1K() echo.MiddlewareFunc         { return middleware.BodyLimit(1024) }
func (echo5) RemoveTrailingSlash() echo.MiddlewareFunc { return middleware.RemoveTrailingSlash() }

func (echo5) KeyAuth(lookup string, valid func(string) bool) echo.MiddlewareFunc {
	return middleware.KeyAuthWithConfig(middleware.KeyAuthConfig{
		KeyLookup: lookup,
		Validator: func(_ ctx, key string, _ middleware.ExtractorSource) (bool, error) { return valid(key), nil },

		AllowedCheckLimit: 8,
	})
}

// exported is what the package exports.
var exported = limittest.Adapter[echo.MiddlewareFunc, echo5limit.Config, *echo5limit.Settings, *echo5limit.Guard]{
	Limit: echo5limit.Limit, New: echo5limit.New, With: echo5limit.With, Measure: echo5limit.Measure,
	Config: func(l limittest.Layer) echo5limit.Config {
		return echo5limit.Config(echotest.ConfigOf(l, framework.Response, echo5limit.Deny))
	},
}

func (echo5) Limit(store core.Store, limits ...core.Limit) echo.MiddlewareFunc {
	return echo5limit.Limit(store, limits...)
}

func (echo5) New(limiter *core.Limiter, own config) echo.MiddlewareFunc {
	return echo5limit.New(limiter, echo5limit.Config(own))
}

func (echo5) Guard(c core.Config, own config, limits ...core.Limit) echotest.Guard[ctx] {
	return echo5limit.With(c, echo5limit.Config(own)).Guard(limits...)
}

func (echo5) Of(layers ...limittest.Layer) []echo.MiddlewareFunc {
	return exported.Middleware(layers...)
}

func (echo5) GuardOf(s *limittest.Settings, limits ...core.Limit) any {
	return exported.Guard(s, limits...)
}

func (echo5) FromContext(c ctx) (core.Decision, bool) { return echo5limit.FromContext(c) }
func (echo5) Charge(c ctx, n int64, limits ...string) error {
	return echo5limit.Charge(c, n, limits...)
}
func (echo5) Key(kind string, f func(ctx) string) keyfuncs.Func { return echo5limit.Key(kind, f) }
func (echo5) Matches(f func(ctx) bool) keyfuncs.Condition       { return echo5limit.Matches(f) }

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
