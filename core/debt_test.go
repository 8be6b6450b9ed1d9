package core_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Observers hear of each unit that was not charged, whatever the limit and however often it is told; what was charged and
// what was forgiven is what the requests have cost.
func TestWhatIsForgivenIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit    core.Limit
		forgiven int64 // of 400 units beyond an estimate of 10
	}{
		"by default":      {core.PerDay(100).FixedWindow(), 310 - 100},
		"none":            {core.PerDay(100).FixedWindow().Debt(0), 310},
		"some":            {core.PerDay(100).FixedWindow().Debt(250), 60},
		"all":             {core.PerDay(100).FixedWindow().Debt(5000), 0},
		"a bucket":        {core.Per(100, 1000*time.Hour).Debt(250), 60},
		"a tier":          {core.PerDay(70).FixedWindow().Debt(250).Tiers(func(keyfuncs.Request) core.Limit { return core.PerDay(100).FixedWindow() }), 60},
		"a tier's own":    {core.PerDay(70).FixedWindow().Tiers(func(keyfuncs.Request) core.Limit { return core.PerDay(100).FixedWindow().Debt(250) }), 60},
		"a scaled limit":  {core.PerDay(200).FixedWindow().Debt(250).Scale(half), 60},
		"the lower class": {core.PerDay(100).FixedWindow().Debt(250).KeepFree(0.5, keyfuncs.Methods("POST")), 60},
		"a month":         {core.PerMonth(100, time.UTC).Debt(250), 60},
	} {
		for what, store := range map[string]core.Store{"memory": core.NewMemory(), "another store": newFlaky(false)} {
			seen := new(recorder)
			l := newLimiter(t, core.Config{Store: store, Observe: seen, Limits: []core.Limit{forAll(c.limit).Estimate(10)}})
			d := l.Allow(get(0))
			ctx := inHandler(t.Context(), d)
			for range 4 {
				must.OK(t, core.Spend(ctx, 100))
			}
			must.OK(t, core.Spend(ctx, 10))
			d.Settle(core.Outcome{Status: 200})
			drained(t, l)
			told, forgiven := int64(0), int64(0)
			for _, s := range seen.settlements {
				check.OK(t, s.Err)
				told, forgiven = told+s.Units, forgiven+s.Forgiven
			}
			check.All(t, fmt.Sprintf("%s, %s: units told, and forgiven", name, what), []any{told, forgiven}, int64(400), c.forgiven)
		}
	}
}

// A handler that reports nonsense overflows nothing, and what it has reported is told.
func TestHugeCostsAreForgiven(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{"window": core.PerDay(100).FixedWindow(), "bucket": core.PerDay(100), "log": core.PerDay(100).SlidingLog()} {
		seen := new(recorder)
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{forAll(limit.Debt(5)).Estimate(1)}})
		d := l.Allow(get(0))
		for range 3 {
			must.OK(t, core.Spend(inHandler(t.Context(), d), math.MaxInt64))
		}
		d.Settle(core.Outcome{Status: 200})
		drained(t, l)
		forgiven := int64(0)
		for _, s := range seen.settlements {
			forgiven += s.Forgiven
		}
		if want := int64(1<<53 - 105); forgiven < want || forgiven > want+1 {
			t.Errorf("%s: %d units forgiven, want %d", name, forgiven, want)
		}
		check.Equal(t, name+": left", unitsLeft(t, l, "all"), 0)
	}
}

// What this process has granted in an outage, and the store has no room for even as a debt, is told as well.
func TestGrantsOfAnOutageThatAreForgiven(t *testing.T) {
	t.Parallel()
	store, seen := newLeaving(), new(recorder)
	l := newLimiter(t, core.Config{Store: store, Observe: seen, Limits: []core.Limit{core.Per(10, 1000*time.Hour).FixedWindow().Debt(1).By(keyfuncs.Everyone())}})
	l.AllowKey(t.Context(), "k", 8)
	store.down.Store(true)
	l.AllowKey(t.Context(), "k", 7)
	store.down.Store(false)
	l.AllowKey(t.Context(), "k", 1)
	must.Equal(t, "settlements", len(seen.settlements), 1)
	s := seen.settlements[0]
	useMemoryAgain(t)
	// 8 and 1 are charged when the outage is told: 2 of its 7 fit, with the debt of 1.
	check.All(t, "units, forgiven and key", []any{s.Units, s.Forgiven, string(s.Key())}, int64(0), int64(5), "k")
}

// useMemoryAgain makes several decisions within each other, so that they use the memory of those before.
func useMemoryAgain(t *testing.T) {
	t.Helper()
	var l *core.Limiter
	depth := 0
	l = newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{
		core.PerHour(1).By(keyfuncs.Everyone()).Named("a"),
		core.PerHour(1).By(keyfuncs.Everyone()).Named("b").CostBy(func(r keyfuncs.Request) int64 {
			if depth++; depth < 10 {
				l.Allow(r)
			}
			return 1
		}),
	}})
	l.Allow(get(0))
}
