package prometheus_test

import (
	"context"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/race"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// Not under the race detector, which makes sync.Pool forget at random, and not parallel:
// testing.AllocsPerRun counts the allocations of the process.
func TestCountingDoesNotAllocate(t *testing.T) {
	race.Skip(t)
	for name, config := range map[string]weblimitprom.Config{
		"plain":     {},
		"exemplars": {TraceID: func(context.Context) string { return "4bf92f3577b34da6a3ce929d0e0e4736" }}, // one of a second's
		"capped":    {MaxSeries: 1},
	} {
		observer, _ := observe(t, config)
		l := limiter(t, core.Config{Store: core.NewMemory(), Observe: observer, Limits: []core.Limit{perUser(core.PerHour(100)).Named("user")}})
		r := on("/orders/{id}")
		for range 200 {
			l.Allow(r)
		}
		if allocs := testing.AllocsPerRun(200, func() { l.AllowKey(t.Context(), "user:alice", 1); l.Allow(r) }); allocs != 0 {
			t.Errorf("%s: %v allocations, want none", name, allocs)
		}
	}
}
