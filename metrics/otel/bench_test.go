package otel_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/race"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

// setup is a way to observe decisions in memory.
type setup struct {
	name   string
	limits []core.Limit
	ctx    context.Context
	by     core.Observer // or nil
	allocs float64       // at most, for each decision
}

func setups(b testing.TB) []setup {
	never := newSDK(b, weblimitotel.Config{}, sdktrace.WithSampler(sdktrace.NeverSample()))
	always := newSDK(b, weblimitotel.Config{})
	shaped := newSDK(b, weblimitotel.Config{RateLimiting: true})
	unsampled, _ := never.traces.Tracer("test").Start(b.Context(), "GET /items/:id")
	sampled, _ := always.traces.Tracer("test").Start(b.Context(), "GET /items/:id")
	spansOnly := weblimitotel.Must(weblimitotel.New(weblimitotel.Config{MeterProvider: noop.NewMeterProvider(), TracerProvider: never.traces}))
	allowed := []core.Limit{core.PerSecond(1_000_000_000).By(everyone).Named("user")}
	denied := []core.Limit{core.PerDay(1).By(everyone).Named("user")}
	return []setup{
		{"allowed/no observer", allowed, b.Context(), nil, 0},
		{"allowed/no span", allowed, b.Context(), never, 0},
		{"allowed/no span, rate limiting", allowed, b.Context(), shaped, 0},
		{"allowed/span that does not record", allowed, unsampled, never, 0},
		{"allowed/span that does not record, no meter", allowed, unsampled, spansOnly, 0},
		{"allowed/span that records", allowed, sampled, always, 4},
		{"denied/no observer", denied, b.Context(), nil, 0},
		{"denied/span that does not record", denied, unsampled, never, 0},
	}
}

// decider returns a function that decides a request in the way of an adapter.
func (s setup) decider(b testing.TB) func() {
	l := adapter.New(newLimiter(b, core.Config{Store: core.NewMemory(), Limits: s.limits, Observe: s.by}), "gin")
	r := &request{ctx: s.ctx, route: "/items/:id"}
	c := new(adapter.Context)
	decide := func() {
		*c = adapter.Context{}
		l.Decide(r, c, nil)
	}
	decide() // makes the series
	decide()
	return decide
}

func BenchmarkDecision(b *testing.B) {
	for _, s := range setups(b) {
		b.Run(s.name, func(b *testing.B) {
			decide := s.decider(b)
			b.ReportAllocs()
			for b.Loop() {
				decide()
			}
		})
	}
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	race.Skip(t)
	for _, s := range setups(t) {
		if got := testing.AllocsPerRun(1000, s.decider(t)); got > s.allocs {
			t.Errorf("%s: %v allocations, want at most %v", s.name, got, s.allocs)
		}
	}
}
