package echotest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Run runs everything.
func Run[C Ctx, M any](t *testing.T, f Framework[C, M]) {
	s := suite[C, M]{f}
	for _, tt := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"locals come before the context", s.locals},
		{"each place of a limiter sees the route that is going to answer", s.route},
		{"trap 52: Pre rewrites behind the limiter", s.rewritingPre},
		{"the error handler does not see a denial", s.errorHandler},
		{"Denied may return an error", s.deniedWithError},
		{"errors of handlers have the headers", s.failingHandler},
		{"outer middleware sees the denial", s.outerMiddleware},
		{"RealIP is not asked", s.realIP},
		{"a guard returns the error of Denied", s.guardWithError},
		{"a context further in is not the request's", s.innerContext},
		{"a body beyond the limit is the client's doing", s.largeBody},
		{"trap 50: KeyAuth takes any of several", s.keyAuth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t)
		})
	}
}

// suite is the tests of Run.
type suite[C Ctx, M any] struct{ f Framework[C, M] }

func (s suite[C, M]) app() App[C, M] { return s.f.App(Options[C]{}) }

// everyone returns a limiter in memory of one limit an hour for everyone, named "api".
func (s suite[C, M]) everyone(perHour int64) M {
	return s.f.Limit(core.NewMemory(), core.PerHour(perHour).By(keyfuncs.Everyone()).Named("api"))
}

func hello[C Ctx](c C) error { return c.String(http.StatusOK, "hello") }

// ask sends a request, and returns what is answered.
func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
