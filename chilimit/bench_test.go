package chilimit_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// An allowed request allocates once: the decision, with the text of its RateLimit
// and the slice of one that http.Header keeps it in, the context that holds it and
// the copy of the request with that context. A RateLimit of several limits is too
// long to be kept there.
//
// Its RateLimit-Policy, its key and its route cost none, whatever the number of
// limits; below a mount chi joins the patterns of routers into one string, and
// makes another of it without the /*/. A denied one has in addition the values of
// Retry-After and Content-Length, the slices of these, and the body.
const (
	allocsAllowed = 1
	allocsSeveral = 2
	allocsMounted = 3
	allocsDenied  = 6
)

func router(middleware ...func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware...)
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return r
}

// mounted is router below a mount, the limiter in front of it.
func mounted(middleware ...func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware...)
	r.Mount("/", router())
	return r
}

func byRoute() func(http.Handler) http.Handler {
	return chilimit.Limit(core.NewMemory(), core.PerSecond(1_000_000_000).By(keyfuncs.Route()))
}

func BenchmarkBare(b *testing.B) { limittest.Benchmark(b, router()) }

func BenchmarkAllowed(b *testing.B) {
	limittest.Benchmark(b, router(chilimit.New(limittest.Ample(1))))
}

func BenchmarkAllowedThreeLimits(b *testing.B) {
	limittest.Benchmark(b, router(chilimit.New(limittest.Ample(3))))
}

func BenchmarkAllowedByRoute(b *testing.B) { limittest.Benchmark(b, router(byRoute())) }

func BenchmarkBareMounted(b *testing.B) { limittest.Benchmark(b, mounted()) }

func BenchmarkAllowedByRouteMounted(b *testing.B) { limittest.Benchmark(b, mounted(byRoute())) }

func BenchmarkDenied(b *testing.B) {
	limittest.Benchmark(b, router(chilimit.New(limittest.Exhausted())))
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	for _, tt := range []struct {
		name    string
		app     func(...func(http.Handler) http.Handler) http.Handler
		limiter func(http.Handler) http.Handler
		want    int
	}{
		{"allowed", router, chilimit.New(limittest.Ample(1)), allocsAllowed},
		{"allowed by three limits", router, chilimit.New(limittest.Ample(3)), allocsSeveral},
		{"allowed by route", router, byRoute(), allocsAllowed},
		{"allowed by route below a mount", mounted, byRoute(), allocsMounted},
		{"denied", router, chilimit.New(limittest.Exhausted()), allocsDenied},
		{"allowed, with NoContext", router, chilimit.New(limittest.Ample(1), chilimit.Config{NoContext: true}), allocsAllowed},
		{"allowed, with NoContext and without headers", router, chilimit.New(limittest.Silent(), chilimit.Config{NoContext: true}), allocsAllowed - 1},
		{"denied, with NoContext", router, chilimit.New(limittest.Exhausted(), chilimit.Config{NoContext: true}), allocsDenied + 1},
	} {
		if got := limittest.Allocs(t, tt.app(tt.limiter)) - limittest.Allocs(t, tt.app()); got > tt.want {
			t.Errorf("%s: %d allocations, want at most %d", tt.name, got, tt.want)
		}
	}
}
