package ginlimit_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

// An allowed request allocates once: the decision, with the text of its RateLimit
// and the slice of one that http.Header keeps it in, the context that holds it and
// the copy of the request with that context. A RateLimit of several limits is too
// long to be kept there.
//
// Its RateLimit-Policy and its key cost none, whatever the number of limits. A
// denied one has in addition the values of Retry-After and Content-Length, the
// slices of these, and the body.
const (
	allocsAllowed = 1
	allocsSeveral = 2
	allocsDenied  = 6
)

func engine(middleware ...gin.HandlerFunc) http.Handler {
	r := gin.New()
	r.Use(middleware...)
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	return r
}

func BenchmarkBare(b *testing.B) { limittest.Benchmark(b, engine()) }

func BenchmarkAllowed(b *testing.B) {
	limittest.Benchmark(b, engine(ginlimit.New(limittest.Ample(1))))
}

func BenchmarkAllowedThreeLimits(b *testing.B) {
	limittest.Benchmark(b, engine(ginlimit.New(limittest.Ample(3))))
}

func BenchmarkDenied(b *testing.B) {
	limittest.Benchmark(b, engine(ginlimit.New(limittest.Exhausted())))
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	bare := limittest.Allocs(t, engine())
	for _, tt := range []struct {
		name    string
		limiter gin.HandlerFunc
		want    int
	}{
		{"allowed", ginlimit.New(limittest.Ample(1)), allocsAllowed},
		{"allowed by three limits", ginlimit.New(limittest.Ample(3)), allocsSeveral},
		{"denied", ginlimit.New(limittest.Exhausted()), allocsDenied},
		{"allowed, with NoContext", ginlimit.New(limittest.Ample(1), ginlimit.Config{NoContext: true}), allocsAllowed},
		{"allowed, with NoContext and without headers", ginlimit.New(limittest.Silent(), ginlimit.Config{NoContext: true}), allocsAllowed - 1},
		{"denied, with NoContext", ginlimit.New(limittest.Exhausted(), ginlimit.Config{NoContext: true}), allocsDenied + 1},
	} {
		if got := limittest.Allocs(t, engine(tt.limiter)) - bare; got > tt.want {
			t.Errorf("%s: %d allocations, want at most %d", tt.name, got, tt.want)
		}
	}
}
