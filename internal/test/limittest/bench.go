package limittest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Ample returns a limiter in memory with one limit by client address, or with several.
// No benchmark uses the limits up.
func Ample(limits int) *core.Limiter {
	names := [...]string{"second", "minute", "hour"}
	windows := [...]func(int64) core.Limit{core.PerSecond, core.PerMinute, core.PerHour}
	all := make([]core.Limit, limits)
	for i := range all {
		all[i] = windows[i](1_000_000_000).By(keyfuncs.ClientIP()).Named(names[i])
	}
	return core.ForLimits(core.NewMemory(), all)
}

// Silent is Ample with one limit that writes no headers.
func Silent() *core.Limiter {
	return core.Must(core.New(core.Config{
		Store: core.NewMemory(), HeadersWhen: core.Never,
		Limits: []core.Limit{core.PerSecond(1_000_000_000).By(keyfuncs.ClientIP())},
	}))
}

// Exhausted returns a limiter in memory that denies every request but one in a year.
func Exhausted() *core.Limiter {
	l := core.ForLimits(core.NewMemory(), []core.Limit{core.Per(1, 365*24*3600e9).By(keyfuncs.Everyone())})
	l.AllowKey(context.Background(), "all", 1) // the key of Everyone
	return l
}

// Sink is a response writer that costs nothing. It keeps one header map, as net/http
// does for a request, and discards the body.
type Sink struct{ header http.Header }

// Header implements http.ResponseWriter.
func (s *Sink) Header() http.Header { return s.header }

// Write implements http.ResponseWriter.
func (s *Sink) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (s *Sink) WriteHeader(int) {}

// once returns a function that serves one and the same request.
func once(h http.Handler) func() {
	w := &Sink{make(http.Header)}
	r := httptest.NewRequest("GET", "/", nil)
	return func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// Benchmark serves "GET /" b.N times without a network.
func Benchmark(b *testing.B, h http.Handler) {
	serve := once(h)
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}

// Allocs returns how many allocations h makes for one "GET /". It counts those of the
// whole process, so its test must not be parallel. Under the race detector it skips
// the test, because pools then drop values at random.
func Allocs(t *testing.T, h http.Handler) int {
	t.Helper()
	race.Skip(t)
	return int(testing.AllocsPerRun(1000, once(h)))
}
