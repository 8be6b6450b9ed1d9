package echolimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// outcomeOf returns how a request ended to an app whose limiter comes first.
func outcomeOf(r *http.Request, handler echo.HandlerFunc, inner ...echo.MiddlewareFunc) (seen core.Outcome) {
	e := echo.New()
	e.Use(echolimit.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
		seen = o
		return false
	})))
	e.Use(inner...)
	e.Any("/", handler)
	e.ServeHTTP(httptest.NewRecorder(), r)
	return seen
}

// Time-out middleware behind the limiter gives the handler a context that ends when
// it returns. Nobody canceled the request for that.
func TestAContextFurtherInIsNotTheRequests(t *testing.T) {
	t.Parallel()
	seen := outcomeOf(httptest.NewRequest("GET", "/", nil), func(c echo.Context) error { return c.String(200, "hello") },
		func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				ctx, cancel := context.WithCancel(c.Request().Context())
				defer cancel()
				c.SetRequest(c.Request().WithContext(ctx))
				return next(c)
			}
		})
	if seen.Status != 200 || seen.Canceled || seen.TimedOut {
		t.Errorf("%+v", seen)
	}
}

// Echo's body limit fails the handler's read with an error of its own: however the
// handler answers it, the client sent too much.
func TestABodyBeyondTheLimitIsTheClientsDoing(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("POST", "/", strings.NewReader("more than one byte"))
	r.ContentLength = -1
	seen := outcomeOf(r, func(c echo.Context) error {
		_, err := http.MaxBytesReader(c.Response(), c.Request().Body, 1).Read(make([]byte, 64))
		return err // a 500
	}, middleware.BodyLimit("1K"))
	if seen.Status != 500 || !seen.Canceled {
		t.Errorf("%+v", seen)
	}
}
