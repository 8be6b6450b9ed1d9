package echotest

import (
	"context"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Guards are those of the adapter suite.
func Guards[C Ctx, M any](f Framework[C, M]) limittest.Guards {
	return limittest.Guards{Make: f.GuardOf, Streams: limittest.Stays}
}

// Closures are those of the adapter suite.
func Closures[C Ctx, M any](f Framework[C, M]) limittest.Closures {
	return limittest.Closures{
		Param: func(kind, name string) keyfuncs.Func {
			return f.Key(kind, func(c C) string { return c.Param(name) })
		},
		Header: func(kind, name string) keyfuncs.Func {
			return f.Key(kind, func(c C) string { return c.Request().Header.Get(name) })
		},
		Has: func(name string) keyfuncs.Condition {
			return f.Matches(func(c C) bool { return c.Request().Header.Get(name) != "" })
		},
	}
}

var templates = strings.NewReplacer("{", ":", "}", "")

// Build makes servers for the adapter suite.
func Build[C Ctx, M any](f Framework[C, M], address Address) limittest.Build {
	return func(_ testing.TB, app limittest.App) limittest.Server {
		e := f.App(Options[C]{Address: address})
		e.Use(f.Recover(), f.Middleware(func(c C, next func(C) error) error {
			limittest.SetOuter(f.Response(c).Header(), app.Outer)
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
		}))
		e.Pre(f.Of(app.Front...)...)
		e.Use(f.Of(app.Layers...)...)
		for _, route := range app.Routes {
			e.Route(route.Method, templates.Replace(route.Path), func(c C) (err error) {
				route.Handle(limittest.HTTPCall{
					Writer: f.Response(c), Request: c.Request(),
					FromContext: func() (core.Decision, bool) { return f.FromContext(c) },
					AskGuard: func(guard any, key string, cost int64) (ok bool) {
						ok, err = guard.(*Guard[C]).Allow(c, key, cost)
						return ok
					},
					ReturnsError: func(failure error) { err = failure },
					StatusError:  func(status int) error { return f.Error(status, "") },
				})
				return err
			}, f.Of(route.Layers...)...)
		}
		return limittest.Serve(e)
	}
}
