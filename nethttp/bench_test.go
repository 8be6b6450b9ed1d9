package nethttp_test

import (
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/nethttp"
)

var noContent = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

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
		{"allowed by three limits", nethttp.New(limittest.Ample(3))(noContent), allocsSeveral},
		{"allowed, with a Mux nobody asks", nethttp.New(limittest.Ample(1), nethttp.Config{Mux: http.NewServeMux()})(noContent), allocsAllowed},
		{"denied", nethttp.New(limittest.Exhausted())(noContent), allocsDenied},
		{"allowed, with NoContext", nethttp.New(limittest.Ample(1), nethttp.Config{NoContext: true})(noContent), allocsAllowed},
		{"allowed, with NoContext and without headers", nethttp.New(limittest.Silent(), nethttp.Config{NoContext: true})(noContent), allocsAllowed - 1},
		{"denied, with NoContext", nethttp.New(limittest.Exhausted(), nethttp.Config{NoContext: true})(noContent), allocsDenied + 1},
	} {
		if got := limittest.Allocs(t, tt.h) - bare; got > tt.want {
			t.Errorf("%s: %d allocations, want at most %d", tt.name, got, tt.want)
		}
	}
}
