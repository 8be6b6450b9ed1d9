package echolimit_test

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/internal/test/echotest"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var framework echotest.Framework[ctx, echo.MiddlewareFunc] = major{}

// major is this major of Echo.
type major struct{}

type (
	ctx     = echo.Context
	config  = echotest.Config[ctx]
	handler = func(ctx) error
)

func (major) Name() string { return "echolimit" }

func (major) Response(c ctx) http.ResponseWriter { return c.Response() }

func (major) Middleware(f func(ctx, func(ctx) error) error) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c ctx) error { return f(c, next) }
	}
}

func (major) Recover() echo.MiddlewareFunc             { return middleware.Recover() }
func (major) Gzip() echo.MiddlewareFunc                { return middleware.Gzip() }
func (major) RemoveTrailingSlash() echo.MiddlewareFunc { return middleware.RemoveTrailingSlash() }

// exported is what the package exports.
var exported = limittest.Adapter[echo.MiddlewareFunc, echolimit.Config, *echolimit.Settings, *echolimit.Guard]{
	Limit: echolimit.Limit, New: echolimit.New, With: echolimit.With,
	Config: func(l limittest.Layer) echolimit.Config {
		return echolimit.Config(echotest.ConfigOf(l, framework.Response, echolimit.Deny))
	},
}

func (major) Limit(store core.Store, limits ...core.Limit) echo.MiddlewareFunc {
	return echolimit.Limit(store, limits...)
}

func (major) New(limiter *core.Limiter, own config) echo.MiddlewareFunc {
	return echolimit.New(limiter, echolimit.Config(own))
}

func (major) Guard(c core.Config, own config, limits ...core.Limit) *echotest.Guard[ctx] {
	return echolimit.With(c, echolimit.Config(own)).Guard(limits...)
}

func (major) Of(layers ...limittest.Layer) []echo.MiddlewareFunc {
	return exported.Middleware(layers...)
}

func (major) GuardOf(s *limittest.Settings, limits ...core.Limit) any {
	return exported.Guard(s, limits...)
}

func (major) FromContext(c ctx) (core.Decision, bool)           { return echolimit.FromContext(c) }
func (major) Key(kind string, f func(ctx) string) keyfuncs.Func { return echolimit.Key(kind, f) }
func (major) Matches(f func(ctx) bool) keyfuncs.Condition       { return echolimit.Matches(f) }

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
