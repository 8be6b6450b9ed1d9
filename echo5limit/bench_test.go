package echo5limit_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/internal/test/limittest"
)

// An allowed request allocates once: the decision, with the text of its RateLimit and the slice of
// one that http.Header keeps it in, the context that holds it and the copy of the request with
// that context, all in one.
//
// A RateLimit of several limits is too long to be kept with the decision. Its
// RateLimit-Policy and its key cost none, whatever the number of limits. A denied
// request has in addition the values of Retry-After and Content-Length, the
// slices of these, and the body.
var allocations = limittest.Allocations{Allowed: 2, Several: 3, ByRoute: 2, Denied: 7, AllowedNoContext: 2, SilentNoContext: 1, DeniedNoContext: 8}

func noContent(c *echo.Context) error { return c.NoContent(http.StatusNoContent) }

func engine(middleware ...echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	e.Use(middleware...)
	e.GET("/", noContent)
	return e
}

var count, serve = limittest.OfHandler(engine)

func BenchmarkLimit(b *testing.B) { exported.Benchmark(b, serve) }

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) { exported.Allocates(t, allocations, count) }
