package echotest

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The error handler renders what a handler returns after the whole chain: a
// denial must not be among it, for it would be rendered twice.
func (s suite[C, M]) errorHandler(t *testing.T) {
	var errs []error
	e := s.f.App(Options[C]{ErrorHandler: func(err error, c C) {
		errs = append(errs, err)
		_ = c.NoContent(http.StatusInternalServerError)
	}})
	e.Use(s.everyone(1))
	e.Route("GET", "/", hello[C])
	for i, method := range []string{"GET", "GET", "HEAD"} {
		w := ask(e, method, "/")
		if i == 1 && (w.Code != 429 || !strings.HasSuffix(w.Body.String(), `"violated-policies":["api"]}`)) {
			t.Errorf("%d, body %s", w.Code, w.Body)
		}
	}
	if len(errs) != 0 {
		t.Errorf("errors %v", errs)
	}
}

func (s suite[C, M]) deniedWithError(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		body   string
	}{
		{s.f.Error(http.StatusTooManyRequests, "slow down"), 429, `{"message":"slow down"}` + "\n"},
		{errors.New("no template"), 500, `{"message":"Internal Server Error"}` + "\n"},
	} {
		e := s.app()
		l := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(1).By(keyfuncs.Everyone()).Named("api")})
		e.Use(s.f.New(l, Config[C]{Denied: func(C, core.Decision) error { return tt.err }}))
		e.Route("GET", "/", hello[C])
		ask(e, "GET", "/")
		w := ask(e, "GET", "/")
		check.Equal(t, "status", w.Code, tt.status)
		check.Equal(t, "body", w.Body.String(), tt.body)
		check.Equal(t, "RateLimit-Policy", w.Header().Get("RateLimit-Policy"), `"api";q=1;w=3600`)
		check.Equal(t, "has Retry-After", w.Header().Get("Retry-After") != "", true)
	}
}

// A handler's error is rendered after the limiter has returned, with its headers.
func (s suite[C, M]) failingHandler(t *testing.T) {
	e := s.app()
	e.Use(s.everyone(5))
	e.Route("GET", "/", func(C) error { return s.f.Error(http.StatusConflict, "") })
	w := ask(e, "GET", "/")
	check.Equal(t, "status", w.Code, 409)
	check.Equal(t, "RateLimit", w.Header().Get("RateLimit"), `"api";r=4;t=2880`)
}

// What runs after the chain, such as a logger, sees the denial as it was sent,
// and a compressor around the limiter compresses it.
func (s suite[C, M]) outerMiddleware(t *testing.T) {
	e := s.app()
	var status int
	var size int64
	var committed bool
	e.Use(s.f.Middleware(func(c C, next func(C) error) error {
		err := next(c)
		status, size, committed = s.f.Sent(c)
		return err
	}), s.f.Gzip(), s.everyone(1))
	e.Route("GET", "/", hello[C])
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

// What Denied returns goes to the handler, and by it to Echo's error handler.
func (s suite[C, M]) guardWithError(t *testing.T) {
	guard := s.f.Guard(core.Config{Store: core.NewMemory()}, Config[C]{
		Denied: func(_ C, d core.Decision) error { return s.f.Error(d.Status(), "own") },
	}, core.PerHour(1).Named("to"))
	e := s.app()
	e.Route("GET", "/", func(c C) error {
		if ok, err := guard.Allow(c, "to:ann", 1); !ok {
			return err
		}
		return hello(c)
	})
	for _, want := range []string{"hello", `{"message":"own"}` + "\n"} {
		check.Equal(t, "body", ask(e, "GET", "/").Body.String(), want)
	}
}
