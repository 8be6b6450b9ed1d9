package echolimit_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

// An allowed request allocates twice:
//
//   - the decision, with the text of its RateLimit and the slice of one that
//     http.Header keeps it in, the context that holds it and the copy of the
//     request with that context, all in one;
//   - the function that knows its next one: Echo makes its chains anew for each
//     request.
//
// A RateLimit of several limits is too long to be kept with the decision. Its
// RateLimit-Policy and its key cost none, whatever the number of limits. A denied
// request has in addition the values of Retry-After and Content-Length, the
// slices of these, and the body.
const (
	allocsAllowed = 2
	allocsSeveral = 3
	allocsDenied  = 7
)

func noContent(c echo.Context) error { return c.NoContent(http.StatusNoContent) }

func engine(middleware ...echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	e.Use(middleware...)
	e.GET("/", noContent)
	return e
}

func BenchmarkBare(b *testing.B) { limittest.Benchmark(b, engine()) }

func BenchmarkAllowed(b *testing.B) {
	limittest.Benchmark(b, engine(echolimit.New(limittest.Ample(1))))
}

func BenchmarkAllowedThreeLimits(b *testing.B) {
	limittest.Benchmark(b, engine(echolimit.New(limittest.Ample(3))))
}

func BenchmarkDenied(b *testing.B) {
	limittest.Benchmark(b, engine(echolimit.New(limittest.Exhausted())))
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	bare := limittest.Allocs(t, engine())
	for _, tt := range []struct {
		name string
		app  http.Handler
		want int
	}{
		{"allowed", engine(echolimit.New(limittest.Ample(1))), allocsAllowed},
		{"allowed by three limits", engine(echolimit.New(limittest.Ample(3))), allocsSeveral},
		{"denied", engine(echolimit.New(limittest.Exhausted())), allocsDenied},
		{"allowed, with NoContext", engine(echolimit.New(limittest.Ample(1), echolimit.Config{NoContext: true})), allocsAllowed},
		{"allowed, with NoContext and without headers", engine(echolimit.New(limittest.Silent(), echolimit.Config{NoContext: true})), allocsAllowed - 1},
		{"denied, with NoContext", engine(echolimit.New(limittest.Exhausted(), echolimit.Config{NoContext: true})), allocsDenied + 1},
	} {
		if got := limittest.Allocs(t, tt.app) - bare; got > tt.want {
			t.Errorf("%s: %d allocations, want at most %d", tt.name, got, tt.want)
		}
	}
}
