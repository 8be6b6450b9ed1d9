package echo5limit_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/echo5limit"
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
const (
	allocsAllowed = 1
	allocsSeveral = 2
	allocsDenied  = 6
)

func noContent(c *echo.Context) error { return c.NoContent(http.StatusNoContent) }

func engine(middleware ...echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	e.Use(middleware...)
	e.GET("/", noContent)
	return e
}

func BenchmarkBare(b *testing.B) { limittest.Benchmark(b, engine()) }

func BenchmarkAllowed(b *testing.B) {
	limittest.Benchmark(b, engine(echo5limit.New(limittest.Ample(1))))
}

func BenchmarkAllowedThreeLimits(b *testing.B) {
	limittest.Benchmark(b, engine(echo5limit.New(limittest.Ample(3))))
}

func BenchmarkDenied(b *testing.B) {
	limittest.Benchmark(b, engine(echo5limit.New(limittest.Exhausted())))
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	bare := limittest.Allocs(t, engine())
	for _, tt := range []struct {
		name string
		app  http.Handler
		want int
	}{
		{"allowed", engine(echo5limit.New(limittest.Ample(1))), allocsAllowed},
		{"allowed by three limits", engine(echo5limit.New(limittest.Ample(3))), allocsSeveral},
		{"denied", engine(echo5limit.New(limittest.Exhausted())), allocsDenied},
		{"allowed, with NoContext", engine(echo5limit.New(limittest.Ample(1), echo5limit.Config{NoContext: true})), allocsAllowed},
		{"allowed, with NoContext and without headers", engine(echo5limit.New(limittest.Silent(), echo5limit.Config{NoContext: true})), allocsAllowed - 1},
		{"denied, with NoContext", engine(echo5limit.New(limittest.Exhausted(), echo5limit.Config{NoContext: true})), allocsDenied + 1},
	} {
		if got := limittest.Allocs(t, tt.app) - bare; got > tt.want {
			t.Errorf("%s: %d allocations, want at most %d", tt.name, got, tt.want)
		}
	}
}
