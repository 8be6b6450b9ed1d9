package compose_test

import (
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Requests that began under a limit of 1000 a day end when it is 10 an hour. What they give back
// must not fill the bucket again and again: of 900 units that were used, 10 are remembered.
func TestARefundUnderOlderNumbersMintsNothing(t *testing.T) {
	t.Parallel()
	of := func(l core.Limit, store core.Store) core.Config {
		return core.Config{Store: store, Limits: []core.Limit{l.By(keyfuncs.Everyone()).RefundOn(core.ServerErrors).Named("changing")}}
	}
	for what, c := range map[string]struct {
		from, to core.Limit
		left     int64 // before all is given back, and after
		then     int64
	}{
		"lowered":         {core.PerDay(1000), core.PerDay(10), 0, 0},
		"another window":  {core.PerDay(1000), core.PerHour(10), 0, 0},
		"a smaller burst": {core.PerDay(1000), core.PerDay(1000).Burst(10), 0, 0},
		"raised":          {core.PerDay(1000), core.PerDay(2000), 1100, 2000},
		"as it was":       {core.PerDay(1000), core.PerDay(1000), 100, 1000},
	} {
		store := core.NewMemory()
		var live compose.Live
		l := must.Get(live.Limiter(of(c.from, store)))(t)
		begun := make([]core.Decision, 900)
		for i := range begun {
			begun[i] = l.AllowKey(t.Context(), "all", 1)
		}
		must.OK(t, live.Replace(of(c.to, store)))
		l.AllowKey(t.Context(), "all", 1) // the bucket takes the new numbers
		left := func() int64 {
			d := must.Get(l.Peek(t.Context(), "all", 1))(t)
			return d.Results()[0].Remaining
		}
		if got := left(); got < c.left-1 || got > c.left {
			t.Errorf("%s: %d are left", what, got)
		}
		for i := range begun {
			begun[i].Settle(core.Outcome{Status: 500})
		}
		must.OK(t, l.Drain(t.Context()))
		if got := left(); got < c.then-2 || got > c.then {
			t.Errorf("%s: %d are left after all was given back, want %d", what, got, c.then)
		}
	}
}
