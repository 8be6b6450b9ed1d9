package regions_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// takeOne asks the store of a region for units of a rule.
func takeOne(t *testing.T, w *world, region int, rule *core.Rule, cost int64) core.Result {
	t.Helper()
	results := make([]core.Result, 1)
	must.OK(t, w.regions[region].Take(t.Context(), []core.Check{{Key: []byte("client"), Rule: rule, Cost: cost}}, results))
	return results[0]
}

// A cost that no region can lease is denied without a time to wait: it would never fit.
func TestACostThatNoRegionCanLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, time.Millisecond)
		limit := core.PerMinute(900).FixedWindow().By(keyfuncs.Everyone())
		w.limiters(t, limit)
		rule := must.Get(limit.Rule())(t)
		r := takeOne(t, w, 0, &rule, 890)
		check.All(t, "890 of a pool of 810", []any{r.Allowed, r.Charged, r.RetryAfter}, false, false, time.Duration(0))
		r = takeOne(t, w, 0, &rule, 810)
		check.All(t, "all of the pool", []any{r.Allowed, r.Charged}, true, true)
		settle()
	})
}

// Peek charges nothing, and says what the region knows to be left.
func TestPeekSaysWhatTheRegionKnows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, time.Millisecond)
		l := w.limiters(t, core.PerMinute(900).FixedWindow().By(keyfuncs.Everyone()))[0]
		left := func() int64 {
			d := must.Get(l.Peek(t.Context(), "client", 1))(t)
			return d.Results()[0].Remaining
		}
		check.Equal(t, "left at first, of the floor and the pool", left(), 840)
		check.Equal(t, "granted", ask(t, l, 400), 400)
		check.Equal(t, "left", left(), 440)
		check.Equal(t, "granted", ask(t, l, 900), 440)
		check.Equal(t, "left", left(), 0)
		settle()
		check.Equal(t, "left in another window", left(), 840)
	})
}

// A limit in shadow mode makes no request wait for home, and keeps none from being granted.
func TestAShadowMakesNobodyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 40*time.Millisecond)
		l := w.limiters(t, core.PerMinute(60).FixedWindow().By(keyfuncs.Everyone()).Named("tried").Shadow())[0]
		began := time.Now()
		check.Equal(t, "granted", ask(t, l, 100), 100)
		check.Equal(t, "waited", time.Since(began), 0)
		settle()
	})
}

// Requests of several limits are charged under all of them, or none, also if one of them is leased and another decided
// at home.
func TestSeveralLimitsAreChargedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, time.Millisecond)
		everyone := keyfuncs.Everyone()
		l := w.limiters(t,
			core.PerMinute(900).FixedWindow().By(everyone).Named("wide"),
			core.PerMinute(90).FixedWindow().By(everyone).Named("narrow"))[0]
		check.Equal(t, "granted", ask(t, l, 200), 84)
		for name, left := range map[string]int64{"wide": 840 - 84, "narrow": 0} {
			d := must.Get(l.Peek(t.Context(), "client", 1))(t)
			for _, r := range d.Results() {
				if r.Rule.Name == name {
					check.Equal(t, "left of "+name, r.Remaining, left)
				}
			}
		}
		settle()
	})
}

// What comes back after the response is the region's.
func TestWhatIsGivenBackIsTheRegions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, time.Millisecond)
		limit := core.PerMinute(900).FixedWindow().By(keyfuncs.Everyone())
		l := w.limiters(t, limit)[0]
		rule := must.Get(limit.Rule())(t)
		check.Equal(t, "granted", ask(t, l, 800), 800)
		r := takeOne(t, w, 0, &rule, 40)
		check.Equal(t, "the last 40", r.Charged, true)
		check.Equal(t, "one more", takeOne(t, w, 0, &rule, 1).Allowed, false)
		checks, results := []core.Check{{Key: []byte("client"), Rule: &rule, Cost: 40}}, []core.Result{r}
		must.OK(t, w.regions[0].Refund(t.Context(), checks, results))
		check.Equal(t, "granted of what came back", ask(t, l, 100), 40)
		settle()
	})
}

// A key that an operator resets begins anew: its region and home have forgotten what it used, and another process of the
// region sees it within a second. What another region has leased stays used.
func TestAResetBeginsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, time.Millisecond)
		limit := core.PerDay(900).FixedWindow().By(keyfuncs.Everyone()).Named("daily")
		twin := must.Get(regions.New(w.locals[0], w.links[0], regions.Config{Region: "r0", Regions: 3}))(t)
		limiters := w.limiters(t, limit)
		other := must.Get(core.New(core.Config{Store: twin, Limits: []core.Limit{limit}, Timeout: time.Second}))(t)
		check.Equal(t, "granted by one process", ask(t, limiters[0], 300), 300)
		check.Equal(t, "granted by another one", ask(t, other, 300), 300)
		check.Equal(t, "granted by another region", ask(t, limiters[1], 100), 100)
		must.OK(t, limiters[0].Reset(t.Context(), "client"))
		for range 50 { // the other one goes on, and hears of it
			ask(t, other, 1)
			time.Sleep(100 * time.Millisecond)
		}
		granted := ask(t, limiters[0], 900) + 50
		time.Sleep(20 * time.Second)
		granted += ask(t, limiters[0], 900) + ask(t, other, 900)
		if granted < 900-100-30 || granted > 900 {
			t.Errorf("granted %d after the reset, of 900 less what another region has", granted)
		}
		settle()
	})
}

// A window that begins with first use begins at home, with the first request of any region; or in each region, with the
// first one there.
func TestWindowsFromFirstUseOverRegions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode   core.RegionMode
		second time.Duration // until the window ends in the second region, half an hour later
		left   int64
	}{
		"at home": {core.AtHome, 4*time.Hour + 30*time.Minute, 8}, "in each": {core.InEachRegion, 5 * time.Hour, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, 0)
				limiters := w.limiters(t, core.Per(10, 5*time.Hour).FromFirstUse().By(keyfuncs.Everyone()).Regions(c.mode))
				d := limiters[0].AllowKey(t.Context(), "client", 1)
				check.All(t, "first request", []any{d.Allowed, d.Results()[0].ResetAfter}, true, 5*time.Hour)
				time.Sleep(30 * time.Minute)
				d = limiters[1].AllowKey(t.Context(), "client", 1)
				check.All(t, "of another region", []any{d.Allowed, d.Results()[0].ResetAfter, d.Results()[0].Remaining}, true, c.second, c.left)
			})
		})
	}
}

// What home forgives of a charge is told where it was made.
func TestDebtsOverRegions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 0)
		rule := must.Get(core.PerDay(1000).FixedWindow().Debt(50).Named("owed").Rule())(t)
		w.limiters(t, core.PerDay(1000).FixedWindow().Debt(50).Named("owed").By(keyfuncs.Everyone()))
		charged := int64(0)
		for i, cost := range []int64{700, 700} {
			results := make([]core.Result, 1)
			must.OK(t, w.regions[i].Charge(t.Context(), []core.Check{{Key: []byte("client"), Rule: &rule, Cost: cost}}, results))
			charged += cost - results[0].Forgiven
		}
		check.Equal(t, "charged of 1400 in all", charged, 1050)
	})
}
