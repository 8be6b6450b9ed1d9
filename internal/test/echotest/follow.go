package echotest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// OutcomeOf returns how a request ended to an app whose limiter stands between middleware.
func OutcomeOf[C Ctx, M any](f Framework[C, M], options Options[C], r *http.Request, outer, inner []M, handler func(C) error) (seen core.Outcome) {
	e := f.App(options)
	e.Use(outer...)
	e.Use(f.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
		seen = o
		return false
	})))
	e.Use(inner...)
	e.Route("", "/", handler)
	e.ServeHTTP(httptest.NewRecorder(), r)
	return seen
}

// Time-out middleware behind the limiter gives the handler a context that ends when
// it returns. Nobody canceled the request for that.
func (s suite[C, M]) innerContext(t *testing.T) {
	inner := s.f.Middleware(func(c C, next func(C) error) error {
		ctx, cancel := context.WithCancel(c.Request().Context())
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	})
	seen := OutcomeOf(s.f, Options[C]{}, httptest.NewRequest("GET", "/", nil), nil, []M{inner}, hello[C])
	if seen.Status != 200 || seen.Canceled || seen.TimedOut {
		t.Errorf("%+v", seen)
	}
}

// Echo's body limit fails the handler's read with an error of its own: however the
// handler answers it, the client sent too much.
func (s suite[C, M]) largeBody(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("more than one byte"))
	r.ContentLength = -1
	seen := OutcomeOf(s.f, Options[C]{}, r, nil, []M{s.f.BodyLimit1K()}, func(c C) error {
		_, err := http.MaxBytesReader(s.f.Response(c), c.Request().Body, 1).Read(make([]byte, 64))
		return err // a 500
	})
	if seen.Status != 500 || !seen.Canceled {
		t.Errorf("%+v", seen)
	}
}
