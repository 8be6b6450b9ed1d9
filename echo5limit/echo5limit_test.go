package echo5limit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func hello(c *echo.Context) error { return c.String(http.StatusOK, "hello") }

func TestNewPanicsAtStartUp(t *testing.T) {
	t.Parallel()
	l := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())})
	for name, f := range map[string]func(){
		"no limiter":  func() { echo5limit.New(nil) },
		"two Configs": func() { echo5limit.New(l, echo5limit.Config{}, echo5limit.Config{}) },
		"two Configs for With": func() {
			echo5limit.With(core.Config{Store: core.NewMemory()}, echo5limit.Config{}, echo5limit.Config{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "weblimit: echo5limit.") {
					t.Errorf("panic %q", s)
				}
			}()
			f()
			t.Error("no panic")
		})
	}
}

// Locals come before the context, and only strings are keys of locals.
func TestLocalsComeBeforeTheContext(t *testing.T) {
	t.Parallel()
	type key string
	for _, tt := range []struct {
		name string
		key  any
	}{{"both", "user"}, {"context only", key("user")}} {
		e := echo.New()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				ctx := c.Request().Context()
				if tt.name == "both" {
					c.Set("user", c.QueryParam("user"))
					ctx = context.WithValue(ctx, tt.key, "somebody else")
				} else {
					c.Set("user", "somebody else")
					ctx = context.WithValue(ctx, tt.key, c.QueryParam("user"))
				}
				c.SetRequest(c.Request().WithContext(ctx))
				return next(c)
			}
		})
		e.Use(echo5limit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.User(tt.key))))
		for _, ask1 := range []struct {
			path string
			want int
		}{{"/?user=a", 404}, {"/?user=a", 429}, {"/?user=b", 404}} {
			if w := ask(e, "GET", ask1.path); w.Code != ask1.want {
				t.Errorf("%s: %s: %d, want %d", tt.name, ask1.path, w.Code, ask1.want)
			}
		}
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	var seen map[string]string
	probe := func(place string) echo.MiddlewareFunc {
		return echo5limit.Limit(core.NewMemory(), core.PerHour(1000).By(keyfuncs.Custom("probe", func(r keyfuncs.Request) (string, bool) {
			seen[place], _ = r.Route()
			return "x", true
		})))
	}
	e := echo.New()
	e.Pre(probe("pre"))
	e.Use(probe("use"))
	e.GET("/items/:id", hello, probe("route"))
	e.GET("/files/*", hello)
	api := e.Group("/api", probe("group"))
	api.GET("/users/:id", hello)
	for _, tt := range []struct {
		method, path string
		want         map[string]string
	}{
		{"GET", "/items/1", map[string]string{"pre": "", "use": "/items/:id", "route": "/items/:id"}},
		{"GET", "/files/a/b", map[string]string{"pre": "", "use": "/files/*"}},
		{"GET", "/api/users/1", map[string]string{"pre": "", "use": "/api/users/:id", "group": "/api/users/:id"}},
		{"GET", "/nowhere", map[string]string{"pre": "", "use": ""}},
		{"GET", "/ITEMS/1", map[string]string{"pre": "", "use": ""}},
		{"GET", "//items/1", map[string]string{"pre": "", "use": ""}},
		// Echo's own ways to say no.
		{"DELETE", "/items/1", map[string]string{"pre": "", "use": ""}},
		{"OPTIONS", "/items/1", map[string]string{"pre": "", "use": ""}},
	} {
		seen = make(map[string]string)
		ask(e, tt.method, tt.path)
		for place, want := range tt.want {
			if got, asked := seen[place]; !asked || got != want {
				t.Errorf("%s %s: %s sees %q, %v, want %q", tt.method, tt.path, place, got, asked, want)
			}
		}
		if len(seen) != len(tt.want) {
			t.Errorf("%s %s: seen %v, want %v", tt.method, tt.path, seen, tt.want)
		}
	}
}

// The error handler renders what a handler returns after the whole chain: a
// denial must not be among it, for it would be rendered twice.
func TestErrorHandlerDoesNotSeeADenial(t *testing.T) {
	t.Parallel()
	e := echo.New()
	var errs []error
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		errs = append(errs, err)
		echo.DefaultHTTPErrorHandler(false)(c, err)
	}
	e.Use(echo5limit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone())))
	e.GET("/", hello)
	for _, method := range []string{"GET", "GET", "HEAD"} {
		w := ask(e, method, "/")
		if w.Code == 429 && method == "GET" && !strings.HasSuffix(w.Body.String(), `"violated-policies":["default"]}`) {
			t.Errorf("body %s", w.Body)
		}
	}
	if len(errs) != 0 {
		t.Errorf("errors %v", errs)
	}
}

func TestDeniedMayReturnAnError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		status int
		body   string
	}{
		{echo.NewHTTPError(http.StatusTooManyRequests, "slow down"), 429, `{"message":"slow down"}` + "\n"},
		{errors.New("no template"), 500, `{"message":"Internal Server Error"}` + "\n"},
	} {
		e := echo.New()
		l := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(1).By(keyfuncs.Everyone()).Named("api")})
		e.Use(echo5limit.New(l, echo5limit.Config{Denied: func(*echo.Context, core.Decision) error { return tt.err }}))
		e.GET("/", hello)
		ask(e, "GET", "/")
		w := ask(e, "GET", "/")
		if w.Code != tt.status || w.Body.String() != tt.body || w.Header().Get("RateLimit-Policy") != `"api";q=1;w=3600` || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %q, headers %v; want %d %q", w.Code, w.Body, w.Header(), tt.status, tt.body)
		}
	}
}

// A handler's error is rendered after the limiter has returned, with its headers.
func TestErrorsOfHandlersHaveTheHeaders(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(echo5limit.Limit(core.NewMemory(), core.PerHour(5).By(keyfuncs.Everyone()).Named("api")))
	e.GET("/", func(*echo.Context) error { return echo.NewHTTPError(http.StatusConflict, "") })
	if w := ask(e, "GET", "/"); w.Code != 409 || w.Header().Get("RateLimit") != `"api";r=4;t=2880` {
		t.Errorf("%d, headers %v", w.Code, w.Header())
	}
}

// What runs after the chain, such as a logger, sees the denial as it was sent,
// and a compressor around the limiter compresses it.
func TestOuterMiddlewareSeesTheDenial(t *testing.T) {
	t.Parallel()
	e := echo.New()
	var status int
	var size int64
	var committed bool
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			err := next(c)
			response, unwrapErr := echo.UnwrapResponse(c.Response())
			if unwrapErr != nil {
				return unwrapErr
			}
			status, size, committed = response.Status, response.Size, response.Committed
			return err
		}
	})
	e.Use(middleware.Gzip())
	e.Use(echo5limit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone())))
	e.GET("/", hello)
	ask(e, "GET", "/")
	w := ask(e, "GET", "/")
	if status != 429 || size != int64(w.Body.Len()) || !committed {
		t.Errorf("status %d, %d of %d bytes, committed %v", status, size, w.Body.Len(), committed)
	}
	w = ask(e, "GET", "/", "Accept-Encoding", "gzip")
	if w.Code != 429 || w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Content-Length") != "" || !strings.HasPrefix(w.Body.String(), "\x1f\x8b") {
		t.Errorf("gzip: %d, headers %v", w.Code, w.Header())
	}
}

// RealIP believes X-Forwarded-For here, as it always did in Echo 4, and so must not be the
// client address.
func TestRealIPIsNotAsked(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.IPExtractor = echo.LegacyIPExtractor()
	e.Use(echo5limit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.ClientIP())))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, c.RealIP()) })
	if w := ask(e, "GET", "/", "X-Forwarded-For", "203.0.113.1"); w.Body.String() != "203.0.113.1" {
		t.Errorf("RealIP is %s: this test tests nothing", w.Body)
	}
	if w := ask(e, "GET", "/", "X-Forwarded-For", "203.0.113.2"); w.Code != 429 {
		t.Errorf("another X-Forwarded-For: %d, want 429", w.Code)
	}
}

// What Denied returns goes to the handler, and by it to Echo's error handler.
func TestGuardReturnsTheErrorOfDenied(t *testing.T) {
	t.Parallel()
	limits := echo5limit.With(core.Config{Store: core.NewMemory()}, echo5limit.Config{
		Denied: func(_ *echo.Context, d core.Decision) error { return echo.NewHTTPError(d.Status(), "own") },
	})
	guard := limits.Guard(core.PerHour(1).Named("to"))
	e := echo.New()
	e.GET("/", func(c *echo.Context) error {
		if ok, err := guard.Allow(c, "to:ann", 1); !ok {
			return err
		}
		return c.String(http.StatusOK, "hello")
	})
	for _, want := range []string{"hello", `{"message":"own"}` + "\n"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Body.String() != want {
			t.Errorf("%d %q, want %q", w.Code, w.Body, want)
		}
	}
}
