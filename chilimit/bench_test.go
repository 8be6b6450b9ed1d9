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
var allocations = limittest.Allocations{Allowed: 1, Several: 2, ByRoute: 1, Denied: 6, AllowedNoContext: 1, SilentNoContext: 0, DeniedNoContext: 7}

const allocsMounted = 3

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

var count, serve = limittest.OfHandler(router)

func BenchmarkLimit(b *testing.B) { adapter.Benchmark(b, serve) }

func BenchmarkMounted(b *testing.B) {
	b.Run("bare", func(b *testing.B) { limittest.Benchmark(b, mounted()) })
	b.Run("allowed by route", func(b *testing.B) { limittest.Benchmark(b, mounted(byRoute())) })
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	adapter.Allocates(t, allocations, count)
	if got := limittest.Allocs(t, mounted(byRoute())) - limittest.Allocs(t, mounted()); got > allocsMounted {
		t.Errorf("allowed by route below a mount: %d allocations, want at most %d", got, allocsMounted)
	}
}
