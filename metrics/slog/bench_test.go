package weblimitslog_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/race"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
)

// decider returns a function that decides a key, once its limit denies if denied.
func decider(tb testing.TB, denied bool, by core.Observer) func() {
	limit := core.PerSecond(1_000_000_000)
	if denied {
		limit = core.PerDay(1)
	}
	l := newLimiter(tb, core.Config{Store: core.NewMemory(), Observe: by, Limits: []core.Limit{limit.By(everyone).Named("user")}})
	decide := func() { l.AllowKey(tb.Context(), "user:42", 1) }
	for range 3 {
		decide()
	}
	return decide
}

func observer(tb testing.TB) core.Observer {
	return newObserver(tb, weblimitslog.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// none is what any observer costs.
type none struct{ core.NopObserver }

// Beside an observer that does nothing: the difference is what this package costs.
func BenchmarkDecision(b *testing.B) {
	for _, bm := range []struct {
		name   string
		denied bool
		by     core.Observer
	}{
		{"allowed/no observer", false, nil},
		{"allowed/observer that does nothing", false, none{}},
		{"allowed/slog", false, observer(b)},
		{"denied/no observer", true, nil},
		{"denied/observer that does nothing", true, none{}},
		{"denied/slog", true, observer(b)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			decide := decider(b, bm.denied, bm.by)
			b.ReportAllocs()
			for b.Loop() {
				decide()
			}
		})
	}
}

// The observer's part of an allowed decision alone.
func BenchmarkDecidedAllowed(b *testing.B) {
	o, seen := observer(b), &core.Observation{Decision: &core.Decision{Allowed: true, Reason: core.ReasonWithinLimit}}
	b.ReportAllocs()
	for b.Loop() {
		o.Decided(b.Context(), seen)
	}
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	race.Skip(t)
	for name, denied := range map[string]bool{"allowed": false, "denied, without a line": true} {
		if got := testing.AllocsPerRun(1000, decider(t, denied, observer(t))); got > 0 {
			t.Errorf("%s: %v allocations, want none", name, got)
		}
	}
}
