package echo5limit_test

import (
	"context"
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

// outcomeOf returns how a request ended to an app whose limiter comes first.
func outcomeOf(r *http.Request, handler echo.HandlerFunc, inner ...echo.MiddlewareFunc) (seen core.Outcome) {
	e := echo.New()
	e.Use(echo5limit.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
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
	seen := outcomeOf(httptest.NewRequest("GET", "/", nil), func(c *echo.Context) error { return c.String(200, "hello") },
		func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
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
	seen := outcomeOf(r, func(c *echo.Context) error {
		_, err := http.MaxBytesReader(c.Response(), c.Request().Body, 1).Read(make([]byte, 64))
		return err // a 500
	}, middleware.BodyLimit(1024))
	if seen.Status != 500 || !seen.Canceled {
		t.Errorf("%+v", seen)
	}
}

// Middleware may keep the status until the limiter has returned, as Gzip does for a response
// without a body: the handler's status counts, not the 200 that Echo still has then.
func TestAStatusThatIsSentLate(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]echo.HandlerFunc{
		"sent":     func(c *echo.Context) error { return c.NoContent(http.StatusServiceUnavailable) },
		"an error": func(*echo.Context) error { return echo.ErrServiceUnavailable },
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		var seen core.Outcome
		e := echo.New()
		e.Use(middleware.Gzip(), echo5limit.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
			seen = o
			return false
		})))
		e.GET("/", handler)
		e.ServeHTTP(httptest.NewRecorder(), r)
		if seen.Status != 503 {
			t.Errorf("%s: %+v", name, seen)
		}
	}
}

// Gzip puts its own writer back before Echo renders the error, here with another status.
func TestAnErrorRenderedBehindGzip(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	var seen core.Outcome
	e := echo.New()
	e.HTTPErrorHandler = func(c *echo.Context, _ error) { _ = c.NoContent(http.StatusTeapot) }
	e.Use(middleware.Gzip(), echo5limit.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
		seen = o
		return false
	})))
	e.GET("/", func(*echo.Context) error { return echo.ErrServiceUnavailable })
	e.ServeHTTP(httptest.NewRecorder(), r)
	if seen.Status != http.StatusTeapot {
		t.Errorf("%+v", seen)
	}
}
