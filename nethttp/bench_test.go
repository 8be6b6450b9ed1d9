package nethttp_test

import (
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/internal/limittest"
	"github.com/weblimit/weblimit/nethttp"
)

var noContent = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

// An allowed request allocates, in order of size:
//
//   - the context that holds the decision;
//   - the copy of the request with that context, which http.Request asks for;
//   - the value of RateLimit, and the slice of one that http.Header keeps it in.
//
// Its RateLimit-Policy and its key cost none, whatever the number of limits.
// A denied one has in addition the values of Retry-After, Cache-Control and
// Content-Length with their slices (Cache-Control's value is a constant), the
// slice of Content-Type, the body, and one error within core.
const (
	allocsAllowed = 4
	allocsDenied  = 12
)

func BenchmarkBare(b *testing.B) { limittest.Benchmark(b, noContent) }

func BenchmarkAllowed(b *testing.B) {
	limittest.Benchmark(b, nethttp.New(limittest.Ample(1))(noContent))
}

func BenchmarkAllowedThreeLimits(b *testing.B) {
	limittest.Benchmark(b, nethttp.New(limittest.Ample(3))(noContent))
}

func BenchmarkDenied(b *testing.B) {
	limittest.Benchmark(b, nethttp.New(limittest.Exhausted())(noContent))
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	bare := limittest.Allocs(t, noContent)
	for _, tt := range []struct {
		name string
		h    http.Handler
		want int
	}{
		{"allowed", nethttp.New(limittest.Ample(1))(noContent), allocsAllowed},
		{"allowed by three limits", nethttp.New(limittest.Ample(3))(noContent), allocsAllowed},
		{"allowed, with a Mux nobody asks", nethttp.New(limittest.Ample(1), nethttp.Config{Mux: http.NewServeMux()})(noContent), allocsAllowed},
		{"denied", nethttp.New(limittest.Exhausted())(noContent), allocsDenied},
	} {
		if got := limittest.Allocs(t, tt.h) - bare; got > tt.want {
			t.Errorf("%s: %d allocations, want at most %d", tt.name, got, tt.want)
		}
	}
}
