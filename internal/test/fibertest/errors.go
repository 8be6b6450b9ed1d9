package fibertest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func (s suite[C]) locals(t *testing.T) {
	t.Parallel()
	app := s.app()
	app.Use("", func(c C) error {
		c.Locals("user", c.Query("user"))
		s.f.SetContext(context.WithValue(s.f.Context(c), "user", "somebody else"), c) //nolint:revive,staticcheck // the same key, on purpose
		return c.Next()
	}, s.f.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.User("user"))))
	for _, tt := range []struct {
		path string
		want int
	}{{"/?user=a", 404}, {"/?user=a", 429}, {"/?user=b", 404}} {
		check.Equal(t, tt.path, ask(t, app, "GET", tt.path).StatusCode, tt.want)
	}
}

// Middleware further in may replace the user context.
func (s suite[C]) replacedContext(t *testing.T) {
	t.Parallel()
	app := s.app()
	app.Use("", s.everyone(5), func(c C) error {
		s.f.SetContext(context.Background(), c)
		return c.Next()
	})
	app.Get("/", func(c C) error {
		d, ok := s.f.FromContext(c)
		if _, std := core.FromContext(s.f.Context(c)); !ok || !d.Allowed || std {
			t.Errorf("decision %v, %v; in the user context %v", d, ok, std)
		}
		return nil
	})
	ask(t, app, "GET", "/")
}

// The error handler renders what a handler returns after the whole chain: a
// denial must not be among it, for it would be rendered twice.
func (s suite[C]) errorHandler(t *testing.T) {
	t.Parallel()
	var errs []error
	app := s.f.App(Options[C]{ErrorHandler: func(c C, err error) error {
		errs = append(errs, err)
		return c.SendStatus(http.StatusInternalServerError)
	}})
	app.Use("", s.everyone(1))
	app.Get("/", hello[C])
	for _, method := range []string{"GET", "GET", "HEAD"} {
		r := ask(t, app, method, "/")
		if r.StatusCode == 429 && method == "GET" && !strings.HasSuffix(r.body, `"violated-policies":["api"]}`) {
			t.Errorf("body %s", r.body)
		}
	}
	if len(errs) != 0 {
		t.Errorf("errors %v", errs)
	}
}

func (s suite[C]) deniedWithError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		status int
		body   string
	}{
		{s.f.Error(http.StatusTooManyRequests, "slow down"), 429, "slow down"},
		{errors.New("no template"), 500, "no template"},
	} {
		app := s.app()
		l := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(1).By(keyfuncs.Everyone()).Named("api")})
		app.Use("", s.f.New(l, Config[C]{Denied: func(C, core.Decision) error { return tt.err }}))
		app.Get("/", hello[C])
		ask(t, app, "GET", "/")
		r := ask(t, app, "GET", "/")
		check.Equal(t, "status", r.StatusCode, tt.status)
		check.Equal(t, "body", r.body, tt.body)
		check.Equal(t, "RateLimit-Policy", r.Header.Get("RateLimit-Policy"), `"api";q=1;w=3600`)
		check.Equal(t, "has Retry-After", r.Header.Get("Retry-After") != "", true)
	}
}

// A handler's error is rendered after the limiter has returned, with its headers.
func (s suite[C]) failingHandler(t *testing.T) {
	t.Parallel()
	app := s.app()
	app.Use("", s.everyone(5))
	app.Get("/", func(C) error { return s.f.Error(http.StatusConflict, "") })
	r := ask(t, app, "GET", "/")
	check.Equal(t, "status", r.StatusCode, 409)
	check.Equal(t, "RateLimit", r.Header.Get("RateLimit"), `"api";r=4;t=2880`)
}

// What runs after the chain, such as a logger, sees the denial as it will be sent.
func (s suite[C]) outerMiddleware(t *testing.T) {
	t.Parallel()
	app := s.app()
	var status int
	var body string
	app.Use("", func(c C) error {
		err := c.Next()
		code, text := s.f.Answer(c)
		status, body = code, string(text)
		return err
	}, s.everyone(1))
	app.Get("/", hello[C])
	ask(t, app, "GET", "/")
	if r := ask(t, app, "GET", "/"); status != 429 || r.StatusCode != 429 || body == "" || body != r.body {
		t.Errorf("status %d, body %q, want %d %q", status, body, r.StatusCode, r.body)
	}
}

// A policy that a gateway wrote in two lines keeps both.
func (s suite[C]) linesOfOthers(t *testing.T) {
	t.Parallel()
	app := s.app()
	app.Use("", func(c C) error {
		s.f.Response(c).Add("RateLimit-Policy", `"a";q=1`)
		s.f.Response(c).Add("RateLimit-Policy", `"b";q=2`)
		return c.Next()
	}, s.everyone(5))
	lines := ask(t, app, "GET", "/").Header["Ratelimit-Policy"]
	check.Equal(t, "RateLimit-Policy", strings.Join(lines, " | "), `"a";q=1, "b";q=2, "api";q=5;w=3600`)
}

// What Denied returns goes to the handler, and by it to Fiber's error handler.
func (s suite[C]) guardWithError(t *testing.T) {
	t.Parallel()
	guard := s.f.With(core.Config{Store: core.NewMemory()}, Config[C]{
		Denied: func(_ C, d core.Decision) error { return s.f.Error(d.Status(), "own") },
	})(core.PerHour(1).Named("to"))
	app := s.app()
	app.Get("/", func(c C) error {
		if ok, err := guard.Allow(c, "to:ann", 1); !ok {
			return err
		}
		return hello(c)
	})
	for _, want := range []string{"hello", "own"} {
		check.Equal(t, "body", ask(t, app, "GET", "/").body, want)
	}
}
