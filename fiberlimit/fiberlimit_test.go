package fiberlimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// response is a response that was read.
type response struct {
	*http.Response
	body string
}

// ask sends a request to an app.
func ask(app *fiber.App, method, path string, header ...string) response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := app.Test(r, -1)
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		panic(err)
	}
	return response{res, string(body)}
}

func hello(c *fiber.Ctx) error { return c.SendString("hello") }

func TestNewPanicsAtStartUp(t *testing.T) {
	t.Parallel()
	l := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())})
	for name, f := range map[string]func(){
		"no limiter":  func() { fiberlimit.New(nil) },
		"two Configs": func() { fiberlimit.New(l, fiberlimit.Config{}, fiberlimit.Config{}) },
		"two Configs for With": func() {
			fiberlimit.With(core.Config{Store: core.NewMemory()}, fiberlimit.Config{}, fiberlimit.Config{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "weblimit: fiberlimit.") {
					t.Errorf("panic %q", s)
				}
			}()
			f()
			t.Error("no panic")
		})
	}
}

func TestLocalsComeBeforeTheContext(t *testing.T) {
	t.Parallel()
	app := fiber.New()
	app.Use(func(c *fiber.Ctx) error {
		c.Locals("user", c.Query("user"))
		c.SetUserContext(context.WithValue(c.UserContext(), "user", "somebody else")) //nolint:revive,staticcheck // the same key, on purpose
		return c.Next()
	})
	app.Use(fiberlimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.User("user"))))
	for _, tt := range []struct {
		path string
		want int
	}{{"/?user=a", 404}, {"/?user=a", 429}, {"/?user=b", 404}} {
		if r := ask(app, "GET", tt.path); r.StatusCode != tt.want {
			t.Errorf("%s: %d, want %d", tt.path, r.StatusCode, tt.want)
		}
	}
}

// Middleware further in may replace the user context.
func TestDecisionOutlivesTheUserContext(t *testing.T) {
	t.Parallel()
	app := fiber.New()
	app.Use(fiberlimit.Limit(core.NewMemory(), core.PerHour(5).By(keyfuncs.Everyone())))
	app.Use(func(c *fiber.Ctx) error {
		c.SetUserContext(context.Background())
		return c.Next()
	})
	app.Get("/", func(c *fiber.Ctx) error {
		d, ok := fiberlimit.FromContext(c)
		if _, std := core.FromContext(c.UserContext()); !ok || !d.Allowed || std {
			t.Errorf("decision %v, %v; in the user context %v", d, ok, std)
		}
		return nil
	})
	ask(app, "GET", "/")
}

// The error handler renders what a handler returns after the whole chain: a
// denial must not be among it, for it would be rendered twice.
func TestErrorHandlerDoesNotSeeADenial(t *testing.T) {
	t.Parallel()
	var errs []error
	app := fiber.New(fiber.Config{ErrorHandler: func(c *fiber.Ctx, err error) error {
		errs = append(errs, err)
		return fiber.DefaultErrorHandler(c, err)
	}})
	app.Use(fiberlimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone())))
	app.Get("/", hello)
	for _, method := range []string{"GET", "GET", "HEAD"} {
		r := ask(app, method, "/")
		if r.StatusCode == 429 && method == "GET" && !strings.HasSuffix(r.body, `"violated-policies":["default"]}`) {
			t.Errorf("body %s", r.body)
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
		{fiber.NewError(http.StatusTooManyRequests, "slow down"), 429, "slow down"},
		{errors.New("no template"), 500, "no template"},
	} {
		app := fiber.New()
		l := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(1).By(keyfuncs.Everyone()).Named("api")})
		app.Use(fiberlimit.New(l, fiberlimit.Config{Denied: func(*fiber.Ctx, core.Decision) error { return tt.err }}))
		app.Get("/", hello)
		ask(app, "GET", "/")
		r := ask(app, "GET", "/")
		if r.StatusCode != tt.status || r.body != tt.body || r.Header.Get("RateLimit-Policy") != `"api";q=1;w=3600` || r.Header.Get("Retry-After") == "" {
			t.Errorf("%d %q, headers %v; want %d %q", r.StatusCode, r.body, r.Header, tt.status, tt.body)
		}
	}
}

// A handler's error is rendered after the limiter has returned, with its headers.
func TestErrorsOfHandlersHaveTheHeaders(t *testing.T) {
	t.Parallel()
	app := fiber.New()
	app.Use(fiberlimit.Limit(core.NewMemory(), core.PerHour(5).By(keyfuncs.Everyone()).Named("api")))
	app.Get("/", func(*fiber.Ctx) error { return fiber.ErrConflict })
	if r := ask(app, "GET", "/"); r.StatusCode != 409 || r.Header.Get("RateLimit") != `"api";r=4;t=2880` {
		t.Errorf("%d, headers %v", r.StatusCode, r.Header)
	}
}

// What runs after the chain, such as a logger, sees the denial as it will be sent.
func TestOuterMiddlewareSeesTheDenial(t *testing.T) {
	t.Parallel()
	app := fiber.New()
	var status int
	var body string
	app.Use(func(c *fiber.Ctx) error {
		err := c.Next()
		status, body = c.Response().StatusCode(), string(c.Response().Body())
		return err
	})
	app.Use(fiberlimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone())))
	app.Get("/", hello)
	ask(app, "GET", "/")
	if r := ask(app, "GET", "/"); status != 429 || r.StatusCode != 429 || body == "" || body != r.body {
		t.Errorf("status %d, body %q, want %d %q", status, body, r.StatusCode, r.body)
	}
}

// A policy that a gateway wrote in two lines keeps both.
func TestLinesOfOthersAreKept(t *testing.T) {
	t.Parallel()
	app := fiber.New()
	app.Use(func(c *fiber.Ctx) error {
		c.Response().Header.Add("RateLimit-Policy", `"a";q=1`)
		c.Response().Header.Add("RateLimit-Policy", `"b";q=2`)
		return c.Next()
	})
	app.Use(fiberlimit.Limit(core.NewMemory(), core.PerHour(5).By(keyfuncs.Everyone()).Named("api")))
	r := ask(app, "GET", "/")
	if got, want := strings.Join(r.Header["Ratelimit-Policy"], " | "), `"a";q=1, "b";q=2, "api";q=5;w=3600`; got != want {
		t.Errorf("RateLimit-Policy is %s, want %s", got, want)
	}
}

// What Denied returns goes to the handler, and by it to Fiber's error handler.
func TestGuardReturnsTheErrorOfDenied(t *testing.T) {
	t.Parallel()
	limits := fiberlimit.With(core.Config{Store: core.NewMemory()}, fiberlimit.Config{
		Denied: func(_ *fiber.Ctx, d core.Decision) error { return fiber.NewError(d.Status(), "own") },
	})
	guard := limits.Guard(core.PerHour(1).Named("to"))
	app := fiber.New()
	app.Get("/", func(c *fiber.Ctx) error {
		if ok, err := guard.Allow(c, "to:ann", 1); !ok {
			return err
		}
		return c.SendString("hello")
	})
	for _, want := range []string{"hello", "own"} {
		if r := ask(app, "GET", "/"); r.body != want {
			t.Errorf("%d %q, want %q", r.StatusCode, r.body, want)
		}
	}
}
