package echo5limit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/echotest"
)

// behindGzip returns how a request ended to an app whose Gzip stands around the limiter.
func behindGzip(o echotest.Options[ctx], h handler) core.Outcome {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	return echotest.OutcomeOf(framework, o, r, []echo.MiddlewareFunc{framework.Gzip()}, nil, h)
}

// Middleware may keep the status until the limiter has returned, as Gzip does for a response
// without a body: the handler's status counts, not the 200 that Echo still has then.
func TestAStatusThatIsSentLate(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]handler{
		"sent":     func(c ctx) error { return c.NoContent(http.StatusServiceUnavailable) },
		"an error": func(ctx) error { return echo.ErrServiceUnavailable },
	} {
		check.Equal(t, name, behindGzip(echotest.Options[ctx]{}, h).Status, http.StatusServiceUnavailable)
	}
}

// Gzip puts its own writer back before Echo renders the error, here with another status.
func TestAnErrorRenderedBehindGzip(t *testing.T) {
	t.Parallel()
	teapot := echotest.Options[ctx]{ErrorHandler: func(_ error, c ctx) { _ = c.NoContent(http.StatusTeapot) }}
	seen := behindGzip(teapot, func(ctx) error { return echo.ErrServiceUnavailable })
	check.Equal(t, "status", seen.Status, http.StatusTeapot)
}
