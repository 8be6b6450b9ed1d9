package echo5limit_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build) }

func TestSuite(t *testing.T) { limittest.Run(t, "echo", build) }

func TestGuards(t *testing.T) {
	limittest.RunGuards(t, "echo", build, limittest.Guards{
		Make: func(s *limittest.Settings, limits ...core.Limit) any {
			with := func() any { return echo5limit.With(s.Config, config(s.Layer)) }
			return s.Made(with).(*echo5limit.Settings).Guard(limits...)
		},
		Streams: limittest.Stays,
	})
}

func TestClosures(t *testing.T) {
	limittest.RunClosures(t, build, limittest.Closures{
		Param: func(kind, name string) keyfuncs.Func {
			return echo5limit.Key(kind, func(c *echo.Context) string { return c.Param(name) })
		},
		Header: func(kind, name string) keyfuncs.Func {
			return echo5limit.Key(kind, func(c *echo.Context) string { return c.Request().Header.Get(name) })
		},
		Has: func(name string) keyfuncs.Condition {
			return echo5limit.Matches(func(c *echo.Context) bool { return c.Request().Header.Get(name) != "" })
		},
	})
}

var templates = strings.NewReplacer("{", ":", "}", "")

func build(_ testing.TB, app limittest.App) limittest.Server { return buildOn(echo.New(), app) }

func buildOn(e *echo.Echo, app limittest.App) limittest.Server {
	e.Logger = slog.New(slog.DiscardHandler) // of Recover
	e.Use(middleware.Recover(), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			limittest.SetOuter(c.Response().Header(), app.Outer)
			user := c.Request().Header.Get(limittest.UserHeader)
			switch {
			case user == "":
			case app.SignIn == limittest.InContext:
				c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), limittest.UserKey{}, user)))
			case app.SignIn == limittest.InLocals:
				c.Set(limittest.UserLocal, user)
			}
			r, cancel := limittest.Deadline(c.Request())
			defer cancel()
			c.SetRequest(r)
			return next(c)
		}
	})
	e.Pre(limiters(app.Front)...)
	e.Use(limiters(app.Layers)...)
	for _, route := range app.Routes {
		handler := func(c *echo.Context) (err error) {
			route.Handle(limittest.HTTPCall{
				Writer: c.Response(), Request: c.Request(),
				FromContext: func() (core.Decision, bool) { return echo5limit.FromContext(c) },
				ChargeUnits: func(n int64, limits ...string) error { return echo5limit.Charge(c, n, limits...) },
				AskGuard: func(guard any, key string, cost int64) (ok bool) {
					ok, err = guard.(*echo5limit.Guard).Allow(c, key, cost)
					return ok
				},
				ReturnsError: func(failure error) { err = failure },
				StatusError:  func(status int) error { return echo.NewHTTPError(status, "") },
			})
			return err
		}
		if path := templates.Replace(route.Path); route.Method == "" {
			e.Any(path, handler, limiters(route.Layers)...)
		} else {
			e.Add(route.Method, path, handler, limiters(route.Layers)...)
		}
	}
	return limittest.Serve(e)
}

func limiters(layers []limittest.Layer) []echo.MiddlewareFunc {
	var chain []echo.MiddlewareFunc
	for _, l := range layers {
		switch {
		case l.Load != nil:
			chain = append(chain, echo5limit.Measure(l.Load))
		case l.With != nil:
			with := func() any { return echo5limit.With(l.With.Config, config(l.With.Layer)) }
			settings := l.With.Made(with).(*echo5limit.Settings)
			if l.Policies != nil {
				chain = append(chain, settings.Policy(l.Policies, "live"))
			} else {
				chain = append(chain, settings.Limit(l.Limits...))
			}
		case l.Store != nil:
			chain = append(chain, echo5limit.Limit(l.Store, l.Limits...))
		case !l.NoContext && l.Skip == nil && l.Denied == nil && l.Log == nil:
			chain = append(chain, echo5limit.New(l.Limiter))
		default:
			chain = append(chain, echo5limit.New(l.Limiter, config(l)))
		}
	}
	return chain
}

func config(l limittest.Layer) echo5limit.Config {
	var config echo5limit.Config
	config.NoContext = l.NoContext
	if l.Skip != nil {
		config.Skip = func(c *echo.Context) bool { return l.Skip(c.Request().Header.Get) }
	}
	if l.Log != nil {
		config.Denied = func(c *echo.Context, d core.Decision) error {
			l.Log(d)
			return echo5limit.Deny(c, d)
		}
	}
	if l.Denied != nil {
		config.Denied = func(c *echo.Context, d core.Decision) error {
			status, body := l.Denied(d)
			switch {
			case status == 0 && body == "":
				return nil
			case status == 0:
				_, err := io.WriteString(c.Response(), body)
				return err
			}
			return c.String(status, body)
		}
	}
	return config
}
