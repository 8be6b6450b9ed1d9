package redisstore_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/testclock"
)

// If the script lacked an algorithm, another one would decide. So each algorithm answers
// a few charges and a refund on Redis as it does in memory.
func TestTheScriptHasEveryAlgorithm(t *testing.T) {
	t.Parallel()
	for _, algorithm := range counting.Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) {
			t.Parallel()
			n := store.Numbers{Algorithm: algorithm, Quota: 3, Window: time.Minute}
			if algorithm == store.Calendar || algorithm == store.Ledger {
				n.Window, n.Calendar = 0, store.Period{Unit: store.CalendarDay, Location: time.UTC}
			}
			rule := must.Get(store.NewRule("every", n))(t)
			clock := storetest.NewClock()
			memory := memstore.New()
			testclock.Set(memory, clock.Micros)
			redis := redisstore.NewAt(redistest.Shared(t).Client(t), clock.Micros, redisstore.Config{Prefix: redistest.Prefix(t)})
			checks := []core.Check{{Key: []byte("k"), Rule: &rule, Cost: 2}}
			got, want := make([]core.Result, 1), make([]core.Result, 1)
			if algorithm == store.Ledger {
				from := []counting.Restoration{{Generation: 1, Ends: rule.PeriodEnd(clock.Micros())}}
				must.OK(t, memory.Restore(t.Context(), checks, from, want))
				from[0].History = storetest.HistoryOf(t, redis, checks[0])
				must.OK(t, redis.Restore(t.Context(), checks, from, got))
			}
			for step, what := range []func(core.Store, []core.Result) error{
				func(s core.Store, r []core.Result) error { return s.Take(t.Context(), checks, r) },
				func(s core.Store, r []core.Result) error { return s.Refund(t.Context(), checks, r) },
				func(s core.Store, r []core.Result) error { return s.Take(t.Context(), checks, r) },
				func(s core.Store, r []core.Result) error { return s.Take(t.Context(), checks, r) },
				func(s core.Store, r []core.Result) error { return s.Charge(t.Context(), checks, r) },
			} {
				must.OK(t, what(memory, want))
				must.OK(t, what(redis, got))
				if got[0] != want[0] {
					t.Errorf("step %d: got %+v, in memory %+v", step, got[0], want[0])
				}
				clock.Advance(time.Second)
			}
		})
	}
}
