package ginlimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultWriter, gin.DefaultErrorWriter = io.Discard, io.Discard
	os.Exit(limittest.Main(m))
}

func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build, differences) }

func TestSuite(t *testing.T) { limittest.Run(t, "gin", build, differences) }

func TestGuards(t *testing.T) {
	limittest.RunGuards(t, "gin", build, limittest.Guards{Make: adapter.Guard, Streams: limittest.Stays})
}

func TestNewPanicsAtStartUp(t *testing.T) { adapter.PanicsAtStartUp(t, "ginlimit") }

var adapter = limittest.Adapter[gin.HandlerFunc, ginlimit.Config, *ginlimit.Settings, *ginlimit.Guard]{
	Limit: ginlimit.Limit, New: ginlimit.New, With: ginlimit.With, Config: config,
}

func TestClosures(t *testing.T) {
	limittest.RunClosures(t, build, limittest.Closures{
		Param: func(kind, name string) keyfuncs.Func {
			return ginlimit.Key(kind, func(c *gin.Context) string { return c.Param(name) })
		},
		Header: func(kind, name string) keyfuncs.Func {
			return ginlimit.Key(kind, func(c *gin.Context) string { return c.GetHeader(name) })
		},
		Has: func(name string) keyfuncs.Condition {
			return ginlimit.Matches(func(c *gin.Context) bool { return c.GetHeader(name) != "" })
		},
	})
}

// Gin routes before any middleware.
var differences = limittest.Differences{RoutesInFront: true, HidesRoutes: true}

var templates = strings.NewReplacer("{", ":", "}", "")

func build(_ testing.TB, app limittest.App) limittest.Server {
	return buildOn(gin.Default(), app) // with Recovery
}

func buildOn(engine *gin.Engine, app limittest.App) limittest.Server {
	engine.Use(func(c *gin.Context) {
		limittest.SetOuter(c.Writer.Header(), app.Outer)
		user := c.GetHeader(limittest.UserHeader)
		switch {
		case user == "":
		case app.SignIn == limittest.InContext:
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), limittest.UserKey{}, user))
		case app.SignIn == limittest.InLocals:
			c.Set(limittest.UserLocal, user)
		}
		r, cancel := limittest.Deadline(c.Request)
		defer cancel()
		c.Request = r
		c.Next()
		if failure := c.Errors.Last(); failure != nil && !c.Writer.Written() { // as applications do it
			var own statusError
			if !errors.As(failure.Err, &own) {
				own = http.StatusInternalServerError
			}
			c.String(int(own), "failed")
		}
	})
	engine.Use(adapter.Middleware(slices.Concat(app.Front, app.Layers)...)...)
	for _, route := range app.Routes {
		handlers := append(adapter.Middleware(route.Layers...), func(c *gin.Context) {
			route.Handle(limittest.HTTPCall{
				Writer: c.Writer, Request: c.Request,
				FromContext: func() (core.Decision, bool) { return ginlimit.FromContext(c) },
				AskGuard: func(guard any, key string, cost int64) bool {
					return guard.(*ginlimit.Guard).Allow(c, key, cost)
				},
				ReturnsError: func(failure error) { _ = c.Error(failure) },
				StatusError:  func(status int) error { return statusError(status) },
			})
		})
		if path := templates.Replace(route.Path); route.Method == "" {
			engine.Any(path, handlers...)
		} else {
			engine.Handle(route.Method, path, handlers...)
		}
	}
	return limittest.Serve(engine)
}

// statusError is an application's own error, since Gin has none.
type statusError int

func (e statusError) Error() string { return http.StatusText(int(e)) }

func config(l limittest.Layer) ginlimit.Config {
	var config ginlimit.Config
	config.NoContext = l.NoContext
	if l.Skip != nil {
		config.Skip = func(c *gin.Context) bool { return l.Skip(c.GetHeader) }
	}
	if l.Log != nil {
		config.Denied = func(c *gin.Context, d core.Decision) {
			l.Log(d)
			ginlimit.Deny(c, d)
		}
	}
	if l.Denied != nil {
		config.Denied = func(c *gin.Context, d core.Decision) {
			status, body := l.Denied(d)
			switch {
			case status != 0:
				c.String(status, "%s", body)
			case body != "":
				_, _ = c.Writer.WriteString(body)
			}
		}
	}
	return config
}
