package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Where the estimate is nothing, what the handler reports is charged all the same: in steps while it runs, and the rest at
// the end. Nothing is charged if it reports nothing.
func TestAnEstimateOfNothingIsCharged(t *testing.T) {
	t.Parallel()
	for name, algorithm := range map[string]core.Limit{
		"window": core.PerDay(1600).FixedWindow(), "bucket": core.Per(1600, 1000*time.Hour), "log": core.PerDay(1600).SlidingLog(), "month": core.PerMonth(1600, time.UTC),
	} {
		l := limiterOn(t, core.NewMemory(), forAll(algorithm).EstimateBy(costing).RefundOn(core.ServerErrors))
		left := func() int64 { return unitsLeft(t, l, "all") }
		d := l.Allow(get(0))
		d.Settle(core.Outcome{Status: 200})
		check.Equal(t, name+": left after a request that reports nothing", left(), 1600)

		d = l.Allow(get(0))
		must.OK(t, core.Spend(inHandler(t.Context(), d), 99))
		check.Equal(t, name+": left while it runs", left(), 1600)
		must.OK(t, core.Spend(inHandler(t.Context(), d), 1))
		check.Equal(t, name+": left after a sixteenth", left(), 1500)
		must.OK(t, core.Spend(inHandler(t.Context(), d), 7))
		d.Settle(core.Outcome{Status: 500})
		check.Equal(t, name+": left at the end, of which a refund gives nothing back", left(), 1493)

		d = l.AllowKey(t.Context(), "all", 0)
		must.OK(t, core.Spend(inHandler(t.Context(), d), 3))
		d.Settle(core.Outcome{})
		check.Equal(t, name+": left after a key was asked for nothing", left(), 1490)
		must.OK(t, l.Drain(t.Context()))
	}
}

// A request that costs nothing under a limit without an estimate, or that is denied, has nothing to correct.
func TestWhatIsNoEstimateIsNotCharged(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), forAll(core.PerDay(9)).CostBy(costing).RefundOn(core.ServerErrors))
	check.Is(t, "a cost of nothing", core.Spend(inHandler(t.Context(), l.Allow(get(0))), 5), core.ErrNoEstimate)
	l = limiterOn(t, core.NewMemory(), forAll(core.PerDay(9)).EstimateBy(costing), core.PerDay(1).By(keyfuncs.Everyone()).Named("other"))
	l.Allow(get(0))
	denied := l.Allow(get(0))
	check.Equal(t, "allowed", denied.Allowed, false)
	check.Is(t, "a denied request", core.Spend(inHandler(t.Context(), denied), 5), core.ErrNoEstimate)
	check.Equal(t, "left", unitsLeft(t, l, "all"), 9)
}

// An estimate above the burst takes the burst, under whichever rule the request has: it is denied until all is there, and not
// for good. What it really costs takes its place.
func TestAnEstimateTakesNoMoreThanTheBurst(t *testing.T) {
	t.Parallel()
	big := func(keyfuncs.Request) core.Limit { return core.PerDay(200) }
	for name, c := range map[string]struct {
		limit core.Limit
		burst int64
	}{
		"bucket":          {core.PerDay(100), 100},
		"burst":           {core.PerDay(100).Burst(30), 30},
		"window":          {core.PerDay(100).FixedWindow(), 100},
		"month":           {core.PerMonth(100, time.UTC), 100},
		"scaled":          {core.PerDay(100).Scale(half), 50},
		"tier":            {core.PerDay(100).Tiers(big), 200},
		"the lower class": {core.PerDay(100).KeepFree(0.6, keyfuncs.Methods("POST")), 40},
		"replicas":        {core.PerDay(100).FixedWindow(), 100},
	} {
		for how, limit := range map[string]core.Limit{"Estimate": c.limit.Estimate(5000), "EstimateBy": c.limit.EstimateBy(func(keyfuncs.Request) int64 { return 5000 })} {
			what := fmt.Sprintf("%s, by %s: ", name, how)
			l := limiterOn(t, core.NewMemory(), forAll(limit).UpToBurst())
			d := l.Allow(get(0))
			b, _ := d.Binding()
			check.All(t, what+"allowed, left and burst", []any{d.Allowed, b.Remaining, b.Rule.Burst}, true, int64(0), c.burst)
			next := l.Allow(get(0))
			check.Equal(t, what+"the next", next.Reason, core.ReasonLimitExceeded)
			if next.RetryAfter <= 0 {
				t.Errorf("%sthe next is denied for good", what)
			}
			must.OK(t, core.Spend(inHandler(t.Context(), d), 10))
			d.Settle(core.Outcome{Status: 200})
			check.Equal(t, what+"one that finds less than all", l.Allow(get(0)).Allowed, false)
		}
	}
	l := limiterOn(t, core.NewMemory(), forAll(core.PerDay(100)).Estimate(7).UpToBurst())
	d := l.AllowKey(t.Context(), "k", 5000)
	check.Equal(t, "a key whose cost is above the burst", d.Allowed, true)
	d.Settle(core.Outcome{})
	check.Equal(t, "left of it", unitsLeft(t, l, "k"), 0)
	d = l.AllowKey(t.Context(), "other", 93)
	check.Equal(t, "left where it fits", d.Results()[0].Remaining, 7)
}

// In an outage an estimate takes the share of the process at most, and the limits of a fallback have a burst of their own.
func TestEstimatesAboveTheBurstInAnOutage(t *testing.T) {
	t.Parallel()
	limit := forAll(core.PerDay(100).FixedWindow()).Estimate(5000).UpToBurst()
	l := newLimiter(t, core.Config{Store: newFlaky(true), Limits: []core.Limit{limit}, Replicas: 4})
	d := l.Allow(get(0))
	check.All(t, "allowed, left and burst of a quarter", []any{d.Allowed, d.Results()[0].Remaining, d.Results()[0].Rule.Burst}, true, int64(0), int64(25))
	for _, ask := range []func(l *core.Limiter) core.Decision{
		func(l *core.Limiter) core.Decision { return l.Allow(get(0)) },
		func(l *core.Limiter) core.Decision { return l.AllowKey(t.Context(), "all", 5000) },
	} {
		l = newLimiter(t, core.Config{Store: newFlaky(true), Limits: []core.Limit{limit}, Fallback: core.Fallback{Limits: []core.Limit{limit.Named("stand-in")}}})
		check.Equal(t, "allowed by a fallback", ask(l).Allowed, true)
	}
}
