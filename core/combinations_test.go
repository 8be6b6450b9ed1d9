package core_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// What limits by one idea do to limits by another.

func half(context.Context) float64 { return 0.5 }

func TestKeepFreeAndQueuesExcludeEachOther(t *testing.T) {
	t.Parallel()
	posts := keyfuncs.Methods("POST")
	for name, limit := range map[string]core.Limit{
		"Wait":        everyone(10).Wait(time.Second).KeepFree(0.2, posts),
		"LeakyBucket": everyone(10).Burst(10).LeakyBucket(time.Second).KeepFree(0.2, posts),
	} {
		if _, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{limit}}); err == nil || !strings.Contains(err.Error(), "KeepFree") {
			t.Errorf("%s: got %v, want an error that names KeepFree", name, err)
		}
	}
	synctest.Test(t, func(t *testing.T) { // others ask again when it makes sense
		l := limiterOn(t, core.NewMemory(), core.PerSecond(10).By(keyfuncs.Everyone()).FixedWindow().CostBy(costing).
			KeepFree(0.2, posts).Wait(2*time.Second).Tiers(func(keyfuncs.Request) core.Limit { return core.PerSecond(20) }))
		wantDecision(t, "16 of 16", l.Allow(get(16)), true, core.ReasonWithinLimit, 0)
		wantDecision(t, "four of the upper class", l.Allow(post(4)), true, core.ReasonWithinLimit, 0)
		start := time.Now()
		wantDecision(t, "one more", l.Allow(get(1)), true, core.ReasonDelayed, 0)
		check.Equal(t, "the lower class waited until five units were back", time.Since(start), 250*time.Millisecond)
	})
}

func TestScaleKeepsTheQueue(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"base": core.PerSecond(20).LeakyBucket(time.Second),
		"tier": core.PerSecond(1).LeakyBucket(time.Second).Tiers(func(keyfuncs.Request) core.Limit { return core.PerSecond(20).Burst(1) }),
	} {
		synctest.Test(t, func(t *testing.T) {
			l := limiterOn(t, core.NewMemory(), forAll(limit).Scale(half))
			var last core.Decision
			start := time.Now()
			for range 12 { // each takes the next turn, a tenth of a second later
				last = l.Allow(get(1))
			}
			check.All(t, name+": twelve requests at half of 20 per second", []any{last.Allowed, time.Since(start)}, true, 1100*time.Millisecond)
			b, _ := last.Binding()
			check.All(t, name+": decided by", []any{b.Rule.Quota, b.Rule.Wait}, 10, time.Second)
		})
	}
}

func TestDirectDecisionsKnowScaleKeepFreeAndSoft(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), everyone(100).FixedWindow().CostBy(costing).Scale(half).KeepFree(0.5, keyfuncs.Methods("POST")).Soft(40))
	wantDecision(t, "by key, of 50", l.AllowKey(t.Context(), "k", 21), true, core.ReasonWithinLimit, 29)
	d := l.AllowKey(t.Context(), "k", 1)
	if !d.OverSoft() {
		t.Error("22 of a soft limit of 20 are not over it")
	}
	wantDecision(t, "the lower class, of 25", l.Allow(get(20)), true, core.ReasonWithinLimit, 5)
	d = l.Allow(get(5))
	wantDecision(t, "all of it", d, true, core.ReasonWithinLimit, 0)
	if !d.OverSoft() {
		t.Error("25 of a soft limit of 20 are not over it")
	}
	wantDecision(t, "too many", l.Allow(get(1)), false, core.ReasonLimitExceeded, 0)
	wantDecision(t, "the upper class, of 50", l.Allow(post(25)), true, core.ReasonWithinLimit, 0)
}

func TestSlowDownIsOfTheWholeBurst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), everyone(100).FixedWindow().CostBy(costing).
			KeepFree(0.2, keyfuncs.Methods("POST")).SlowDown(0.5, time.Second))
		for _, tt := range []struct {
			request *request
			delay   time.Duration
		}{
			{get(50), 0}, {get(20), 400 * time.Millisecond}, {get(10), 600 * time.Millisecond}, {post(20), time.Second},
		} {
			start := time.Now()
			d := l.Allow(tt.request)
			check.All(t, "delayed by", []any{d.Allowed, time.Since(start)}, true, tt.delay)
		}
	})
}

func TestOperationsChargedOnceUnderVariants(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"bucket": everyone(100), "window": everyone(100).FixedWindow(), "month": core.PerMonth(100, time.UTC).By(keyfuncs.Everyone()),
	} {
		store := newFlaky(false)
		l := limiterOn(t, store, limit.Scale(half).KeepFree(0.5, keyfuncs.Methods("POST")).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Cost(5))
		for _, when := range []string{"while the store answers", "in an outage"} {
			for i, want := range []int64{20, 20} {
				d := l.Allow(&request{headers: map[string]string{"Idempotency-Key": "op"}})
				b, _ := d.Binding()
				check.All(t, fmt.Sprintf("%s: %s: request %d", name, when, i), []any{d.Allowed, b.Remaining, b.Repeated}, true, want, i == 1)
			}
			store.down.Store(true)
		}
	}
}

func TestReservationsOfTheLowerClass(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"bucket": core.PerDay(100), "window": core.PerDay(100).FixedWindow(), "month": core.PerMonth(100, time.UTC),
		"scaled bucket": core.PerDay(200).Scale(half), "tier": core.PerDay(7).Tiers(func(keyfuncs.Request) core.Limit { return core.PerDay(100) }),
	} {
		l := limiterOn(t, core.NewMemory(), forAll(limit).KeepFree(0.5, keyfuncs.Methods("POST")).
			Estimate(3).RefundOn(core.ServerErrors))
		left := func(r *request) int64 {
			r.values = map[any]any{}
			d := l.Allow(r)
			defer d.Settle(core.Outcome{Status: 500})
			b, _ := d.Binding()
			return b.Remaining + 3
		}
		d := l.Allow(get(0))
		must.OK(t, core.Spend(inHandler(t.Context(), d), 40))
		d.Settle(core.Outcome{Status: 200})
		check.Equal(t, name+": left of 60 for the lower class", left(get(0)), 10)
		check.Equal(t, name+": left of 100 for the upper class", left(post(0)), 60)
		d = l.Allow(get(0))
		must.OK(t, core.Spend(inHandler(t.Context(), d), 50))
		check.Equal(t, name+": left for the upper class after 90", left(post(0)), 10)
		d.Settle(core.Outcome{Status: 500})
		for range 2 { // what it costs to ask is given back
			check.Equal(t, name+": left for the upper class after the refund of what was told", left(post(0)), 10)
		}
	}
}

func TestPenaltiesUnderVariants(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"bucket": everyone(100), "window": everyone(100).FixedWindow(), "month": core.PerMonth(100, time.UTC).By(keyfuncs.Everyone()),
		"tier": everyone(7).Tiers(func(keyfuncs.Request) core.Limit { return core.PerMonth(100, time.UTC) }),
	} {
		for _, down := range []bool{false, true} {
			local := core.ReasonBlocked
			if down {
				local = core.ReasonOutageLocal
			}
			l := limiterOn(t, newFlaky(down), limit.CostBy(costing).Scale(half).KeepFree(0.5, keyfuncs.Methods("POST")).
				Penalty(core.Block{After: 2, Within: time.Hour, For: time.Hour}))
			l.Allow(get(25))
			for range 2 {
				l.Allow(get(1))
			}
			d := l.Allow(post(1)) // there would be room
			wantDecision(t, name, d, false, local, 0)
			if b, _ := d.Binding(); !b.Blocked {
				t.Errorf("%s: not blocked after two denials of the lower class, store down %v", name, down)
			}
		}
	}
}

// What a request of a leased limit gives back is the region's again, whatever the algorithm.
func TestRefundsOfLeasedLimits(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"bucket": core.PerDay(1000), "window": core.PerDay(1000).FixedWindow(), "sliding window": core.PerDay(1000).SlidingWindow(),
		"month": core.PerMonth(1000, time.UTC), "scaled window": core.PerDay(2000).FixedWindow().Scale(half),
		"tier": core.PerDay(7).FixedWindow().Tiers(func(keyfuncs.Request) core.Limit { return core.PerDay(1000).FixedWindow() }),
	} {
		l := limiterOn(t, inRegion(t, &away{Store: core.NewMemory()}), forAll(limit).CostBy(costing).RefundOn(core.ServerErrors))
		for range 3 { // each takes all of the region's floor
			d := l.Allow(get(50))
			check.Equal(t, name+": allowed", d.Allowed, true)
			d.Settle(core.Outcome{Status: 500})
			must.OK(t, l.Drain(t.Context()))
		}
	}
}

func TestRefundsBelongToTheirMonth(t *testing.T) {
	inBubble(t, func(t *testing.T) { // which begins on January 1st, 2000
		l := limiterOn(t, core.NewMemory(), core.PerMonth(100, time.UTC).By(keyfuncs.Everyone()).RefundOn(core.ServerErrors))
		same, over := l.AllowKey(t.Context(), "k", 10), l.AllowKey(t.Context(), "k", 20)
		same.Settle(core.Outcome{Status: 500})
		check.Equal(t, "left after a refund in the month", unitsLeft(t, l, "k"), 80)
		time.Sleep(31 * 24 * time.Hour)
		l.AllowKey(t.Context(), "k", 30)
		over.Settle(core.Outcome{Status: 500})
		check.Equal(t, "left after a refund of another month's charge", unitsLeft(t, l, "k"), 70)
	})
}
