package regions_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// A request that costs nothing asks a limit without a floor, whatever it says.
func TestNothingIsAskedOfALimitWithoutAFloor(t *testing.T) {
	t.Parallel()
	for name, limit := range algorithms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, time.Millisecond)
				w.limiters(t, limit.By(keyfuncs.Everyone()))
				n := must.Get(limit.Rule())(t).Numbers
				n.Quota, n.Burst, n.Whole = 5, 5, 5
				rule := must.Get(store.NewRule("default", n))(t)
				r := takeOne(t, w, 0, &rule, 0)
				check.All(t, "nothing", []any{r.Allowed, r.Remaining}, true, int64(5))
				check.Equal(t, "one", takeOne(t, w, 0, &rule, 1).Charged, true)
			})
		})
	}
}

// faulty is a link that can lose the answer of one call.
type faulty struct {
	store.Store
	lose atomic.Pointer[func(checks []core.Check, results []core.Result) bool] // asked after each call, if it is set
}

func (f *faulty) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	if err := f.Store.Take(ctx, checks, results); err != nil {
		return err
	}
	if lose := f.lose.Load(); lose != nil && (*lose)(checks, results) {
		<-ctx.Done()
		return errCut
	}
	return nil
}

// A question that home had not enough for is asked again with fewer units. If the answer to that is lost, its repetition
// brings no more units than were charged.
func TestAQuestionWithFewerUnitsBringsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, time.Millisecond)
		f := &faulty{Store: w.home}
		w.links[0].Store = f
		limit := core.PerHour(1000).FixedWindow().By(keyfuncs.Everyone())
		limiters := w.limiters(t, limit)
		rule := must.Get(limit.Rule())(t)
		check.Equal(t, "granted by one region", ask(t, limiters[0], 60), 60)
		check.Equal(t, "granted by the other", takeOne(t, w, 1, &rule, 800).Charged, true)
		asked, least := int64(0), int64(0)
		lose := func(checks []core.Check, results []core.Result) bool {
			c := checks[0]
			if c.Cost > 0 && !results[0].Allowed {
				asked = c.Cost
			}
			if results[0].Charged && asked > 0 && least == 0 {
				least = c.Cost
				return true
			}
			return false
		}
		f.lose.Store(&lose)
		granted := int64(860)
		for range 3 {
			for range 1000 {
				if takeOne(t, w, 0, &rule, 1).Allowed {
					granted++
				}
			}
			time.Sleep(20 * time.Second)
		}
		t.Logf("asked for %d, then %d; granted %d", asked, least, granted)
		if granted > 1000 {
			t.Errorf("granted %d of 1000", granted)
		}
		settle()
	})
}

// A question whose answer was lost, and whose units home has charged in the window before, brings none in this one: home's
// clock may be behind that of the region.
func TestAQuestionOfTheWindowBeforeBringsNothing(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"fixed window":   core.PerMinute(1000).FixedWindow(),
		"sliding window": core.PerMinute(1000).SlidingWindow(),
		"calendar":       core.PerCalendarDay(1000, time.UTC),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, time.Millisecond)
				testclock.Set(w.home, func() int64 { return time.Now().Add(-time.Second).UnixMicro() })
				f := &faulty{Store: w.home}
				w.links[0].Store = f
				limiters := w.limiters(t, limit.By(keyfuncs.Everyone()))
				window := time.Minute
				if name == "calendar" {
					window = 24 * time.Hour
				}
				time.Sleep(time.Until(time.Now().Truncate(window).Add(window + time.Millisecond)))
				lost := int64(0)
				lose := func(checks []core.Check, results []core.Result) bool {
					if lost == 0 && results[0].Charged {
						lost = checks[0].Cost
						return true
					}
					return false
				}
				f.lose.Store(&lose)
				ask(t, limiters[0], 60)
				time.Sleep(4 * time.Second)
				ask(t, limiters[1], 500)
				before := w.regions[0].Stats().Leased
				ask(t, limiters[0], 1)
				time.Sleep(time.Second)
				taken := w.regions[0].Stats().Leased - before + w.regions[1].Stats().Leased
				if lost == 0 {
					t.Fatal("nothing was lost")
				}
				home := make([]core.Result, 1)
				n := must.Get(limit.By(keyfuncs.Everyone()).Rule())(t).Numbers
				n.Quota, n.Burst, n.Whole = 900, 900, 900
				n.Once, n.Repeats = time.Minute, 1000
				pool := must.Get(store.NewRule("default/pool", n))(t)
				must.OK(t, w.home.Peek(t.Context(), []core.Check{{Key: []byte("client"), Rule: &pool}}, home))
				if used := 900 - home[0].Remaining; used < taken {
					t.Errorf("the regions have leased %d in this window, of which home has charged %d", taken, used)
				}
			})
		})
	}
}

// Work that costs more than its estimate uses up what the region can grant, not only what home has: a client whose requests
// are estimated low does not get the whole floor of each region at that price.
func TestCostsBeyondTheEstimateUseUpTheRegion(t *testing.T) {
	t.Parallel()
	for name, limit := range algorithms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, time.Millisecond)
				w.limiters(t, limit.By(keyfuncs.Everyone()))
				rule := must.Get(limit.By(keyfuncs.Everyone()).Rule())(t)
				used := int64(0)
				for range 100 {
					for region := range 2 {
						if !takeOne(t, w, region, &rule, 1).Allowed {
							continue
						}
						checks := []core.Check{{Key: []byte("client"), Rule: &rule, Cost: 19}}
						must.OK(t, w.regions[region].Charge(t.Context(), checks, make([]core.Result, 1)))
						used += 20
					}
				}
				if used < 700 || used > 1000+2*20 {
					t.Errorf("used %d of 1000", used)
				}
			})
		})
	}
}

// What the region or home can't be charged is charged later, once: the store says that nothing has changed.
func TestACostThatHomeIsNotToldIsChargedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, time.Millisecond)
		limit := core.PerHour(1000).FixedWindow().By(keyfuncs.Everyone())
		home := &refusing{Store: w.home}
		w.links[0].Store = home
		l := w.limiters(t, limit)[0]
		rule := must.Get(limit.Rule())(t)
		check.Equal(t, "granted", ask(t, l, 10), 10)
		home.refuses.Store(true)
		checks, results := []core.Check{{Key: []byte("client"), Rule: &rule, Cost: 100}}, make([]core.Result, 1)
		err := w.regions[0].Charge(t.Context(), checks, results)
		var undone *store.Undone
		check.Equal(t, "nothing has changed", errors.As(err, &undone) && len(undone.Checks) == 1, true)
		home.refuses.Store(false)
		must.OK(t, w.regions[0].Charge(t.Context(), checks, results))
		check.Equal(t, "left to grant", ask(t, l, 1000), 950-110)
		settle()
	})
}

// refusing is a store that charges nothing, and says so, while it refuses.
type refusing struct {
	store.Store
	refuses atomic.Bool
}

func (r *refusing) Charge(ctx context.Context, checks []core.Check, results []core.Result) error {
	if r.refuses.Load() {
		return &store.Undone{Checks: []int{0}, Err: errCut}
	}
	return r.Store.Charge(ctx, checks, results)
}

// A request that the region denies is denied, also if home, which decides another of its limits, does not answer.
func TestADenialIsNoOutageWhileHomeIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, time.Millisecond)
		everyone := keyfuncs.Everyone()
		l := w.limiters(t,
			core.PerHour(40).FixedWindow().By(everyone).Named("leased"),
			core.PerHour(100).FixedWindow().By(everyone).Named("exact").Regions(core.AtHome))[0]
		check.Equal(t, "granted", ask(t, l, 50), 38)
		w.links[0].cut.Store(true)
		d := l.AllowKey(t.Context(), "client", 1)
		check.OK(t, d.Err)
		check.All(t, "the decision", []any{d.Allowed, d.Reason}, false, core.ReasonLimitExceeded)
		w.links[0].cut.Store(false)
		settle()
	})
}

// What a limit keeps free is kept from the lower class, also where the upper class leases it.
func TestWhatIsKeptFreeIsLeasedForTheUpperClass(t *testing.T) {
	t.Parallel()
	for name, overdraft := range map[string]int64{"without an overdraft": 0, "with an overdraft": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, time.Millisecond)
				limit := core.PerHour(1000).FixedWindow().By(keyfuncs.Everyone()).Overdraft(overdraft)
				w.limiters(t, limit)
				upper := must.Get(limit.Rule())(t)
				n := upper.Numbers
				n.Burst = 500
				lower := must.Get(store.NewRule(upper.Name, n))(t)
				low, up := 0, 0
				for range 3000 {
					if takeOne(t, w, 0, &lower, 1).Allowed {
						low++
					}
					if takeOne(t, w, 0, &upper, 1).Allowed {
						up++
					}
					time.Sleep(10 * time.Millisecond)
				}
				t.Log("lower", low, "upper", up)
				if low > 300+int(overdraft)/2 || low < 150 || low+up > 950+int(overdraft) || low+up < 900 {
					t.Errorf("granted %d to the lower class and %d to the upper one, of 1000 with 500 kept free", low, up)
				}
				must.OK(t, w.regions[0].Reset(t.Context(), []core.Check{{Key: []byte("client"), Rule: &upper}}))
				check.Equal(t, "the lower class after a reset", takeOne(t, w, 0, &lower, 1).Allowed, true)
				settle()
			})
		})
	}
}

// A lower class counts in the bucket of its limit, whatever the numbers are.
func TestALowerClassCountsInTheSameBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{home: memstore.New()}
		s := must.Get(regions.New(memstore.New(), w.home, regions.Config{Region: "eu", Regions: 64}))(t)
		w.regions = append(w.regions, s)
		limit := core.PerHour(1280).FixedWindow().By(keyfuncs.Everyone())
		w.limiters(t, limit)
		upper := must.Get(limit.Rule())(t)
		n := upper.Numbers
		n.Burst = 1279
		lower := must.Get(store.NewRule(upper.Name, n))(t)
		granted := 0
		for _, rule := range []*core.Rule{&lower, &upper} {
			for range 2000 {
				if takeOne(t, w, 0, rule, 1).Allowed {
					granted++
				}
				time.Sleep(time.Millisecond)
			}
		}
		if granted > 1280 {
			t.Errorf("granted %d of 1280", granted)
		}
		settle()
	})
}

// A client that has used up its window everywhere is told so, and not to try again in a few seconds.
func TestAWindowThatIsUsedUpIsOverAtItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, time.Millisecond)
		limit := core.PerHour(1000).FixedWindow().By(keyfuncs.Everyone())
		l := w.limiters(t, limit)[0]
		check.Equal(t, "granted", ask(t, l, 1000), 950)
		for range 3 {
			if d := l.AllowKey(t.Context(), "client", 1); d.Allowed || d.RetryAfter < 50*time.Minute {
				t.Errorf("allowed: %v, retry after %v; want to wait for the next window", d.Allowed, d.RetryAfter)
			}
			time.Sleep(7 * time.Second)
		}
		settle()
	})
}

// Of a client that has used up all there is, a request fits after the time that it was told to wait.
func TestWhoeverWaitsIsGranted(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"token bucket":   core.PerHour(60),
		"fixed window":   core.PerHour(60).FixedWindow(),
		"sliding window": core.PerHour(60).SlidingWindow(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, time.Millisecond)
				l := w.limiters(t, limit.By(keyfuncs.Everyone()))[0]
				waits := 0
				for range long.Rounds(150, 300) {
					d := l.AllowKey(t.Context(), "client", 1)
					check.OK(t, d.Err)
					if d.Allowed {
						waits = 0
						continue
					}
					if waits++; waits > 1 {
						t.Fatalf("denied again after the time to wait, now %v", d.RetryAfter)
					}
					time.Sleep(d.RetryAfter)
				}
				settle()
				settle()
			})
		})
	}
}

// A key can be reset by a process that has not served it.
func TestAnyProcessCanReset(t *testing.T) {
	t.Parallel()
	for name, limit := range algorithms {
		if name == "calendar" {
			continue // refused by a second store over the same one
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, time.Millisecond)
				limit := limit.By(keyfuncs.Everyone()).Named("shared")
				l := w.limiters(t, limit)[0]
				check.Equal(t, "granted", ask(t, l, 800), 800)
				twin := must.Get(regions.New(w.locals[0], w.links[0], regions.Config{Region: "r0", Regions: 3}))(t)
				other := must.Get(core.New(core.Config{Store: twin, Limits: []core.Limit{limit}, Timeout: time.Second}))(t)
				must.OK(t, other.Reset(t.Context(), "client"))
				granted := 0
				for range 40 {
					granted += ask(t, l, 20)
					time.Sleep(100 * time.Millisecond)
				}
				if granted < 700 {
					t.Errorf("granted %d of 1000 after a reset", granted)
				}
				settle()
			})
		})
	}
}

// A block holds in its region, also of a limit that is too small for floors.
func TestABlockHoldsWithoutAFloor(t *testing.T) {
	t.Parallel()
	for _, overdraft := range []int64{0, 5} {
		t.Run(fmt.Sprint("overdraft ", overdraft), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, time.Millisecond)
				limit := core.PerHour(20).FixedWindow().By(keyfuncs.Everyone()).Overdraft(overdraft)
				l := w.limiters(t, limit)[0]
				rule := must.Get(limit.Rule())(t)
				checks := []core.Check{{Key: []byte("client"), Rule: &rule, Cost: 1}}
				check.Equal(t, "granted", takeOne(t, w, 0, &rule, 7).Allowed, true)
				check.Equal(t, "granted", ask(t, l, 1), 1)
				must.OK(t, w.regions[0].Block(t.Context(), checks, 3*time.Hour))
				for range 4 {
					r := takeOne(t, w, 0, &rule, 1)
					check.All(t, "while blocked", []any{r.Allowed, r.Blocked, r.RetryAfter > time.Minute}, false, true, true)
					time.Sleep(40 * time.Minute)
				}
				all := 0
				for b, err := range w.regions[0].Blocks(t.Context(), []*core.Rule{&rule}) {
					check.OK(t, err)
					check.Equal(t, "the limit that is blocked", b.Limit, rule.Name)
					all++
				}
				check.Equal(t, "blocks", all, 1)
				must.OK(t, w.regions[0].Unblock(t.Context(), checks))
				time.Sleep(10 * time.Second)
				check.Equal(t, "afterwards", takeOne(t, w, 0, &rule, 1).Allowed, true)
				must.OK(t, w.regions[0].Block(t.Context(), checks, 3*time.Hour))
				must.OK(t, w.regions[0].Reset(t.Context(), checks))
				time.Sleep(10 * time.Second)
				check.Equal(t, "after a reset", takeOne(t, w, 0, &rule, 1).Allowed, true)
				settle()
			})
		})
	}
}

// odd is a wrapper that can't be compared.
type odd struct {
	store.Store
	_ []string
}

func TestStoresThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{home: memstore.New()}
		w.regions = append(w.regions, must.Get(regions.New(odd{Store: memstore.New()}, odd{Store: w.home}, regions.Config{Region: "eu", Regions: 2}))(t))
		limit := core.PerHour(1000).FixedWindow().By(keyfuncs.Everyone())
		w.limiters(t, limit)
		rule := must.Get(limit.Rule())(t)
		r := takeOne(t, w, 0, &rule, 10)
		checks, results := []core.Check{{Key: []byte("client"), Rule: &rule, Cost: 10}}, []core.Result{r}
		must.OK(t, w.regions[0].Refund(t.Context(), checks, results))
		must.OK(t, w.regions[0].Charge(t.Context(), checks, results))
		settle()
	})
}

// A request that one limit denies counts once towards its penalty, and has nothing leased for another limit.
func TestADenialCountsOnceTowardsAPenalty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, time.Millisecond)
		everyone := keyfuncs.Everyone()
		l := w.limiters(t,
			core.PerHour(1000).FixedWindow().By(everyone).Named("leased"),
			core.PerHour(50).FixedWindow().By(everyone).Named("own").Regions(core.InEachRegion).
				Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))[0]
		check.Equal(t, "granted", ask(t, l, 50), 50)
		for range 2 {
			ask(t, l, 1)
			time.Sleep(time.Minute)
		}
		d := must.Get(l.Peek(t.Context(), "client", 1))(t)
		for _, r := range d.Results() {
			check.Equal(t, "blocked by "+r.Rule.Name+" after two denials", r.Blocked, false)
		}
		settle()
	})
}

// slow is a store that takes its time.
type slow struct {
	store.Store
	by time.Duration
}

func (s slow) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	select {
	case <-time.After(s.by):
		return s.Store.Take(ctx, checks, results)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Requests that wait for home are denied in time: a region's store that answers is no outage.
func TestWaitingForHomeIsNoOutageOfTheRegion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, of := range []struct{ local, oneWay int }{{5, 20}, {10, 4}, {10, 8}, {5, 4}, {20, 4}, {15, 5}} { // milliseconds
			local := slow{memstore.New(), time.Duration(of.local) * time.Millisecond}
			home := &link{Store: memstore.New(), oneWay: time.Duration(of.oneWay) * time.Millisecond}
			s := must.Get(regions.New(local, home, regions.Config{Region: "eu", Regions: 2}))(t)
			l := must.Get(core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(3000).By(keyfuncs.Everyone())}, Timeout: 100 * time.Millisecond}))(t)
			time.Sleep(time.Minute)
			var all sync.WaitGroup
			for range 200 {
				for range 20 {
					all.Go(func() {
						d := l.AllowKey(t.Context(), "client", 1)
						check.OK(t, d.Err)
					})
				}
				time.Sleep(5 * time.Millisecond)
			}
			all.Wait()
			settle()
		}
	})
}

// What a region has leased a home that was emptied hears, also of a process that was started since and leases nothing.
func TestAProcessThatWasStartedTellsHome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, time.Millisecond)
		limit := core.PerHour(1000).FixedWindow().By(keyfuncs.Everyone()).Named("daily")
		limiters := w.limiters(t, limit)
		rule := must.Get(limit.Rule())(t)
		check.Equal(t, "granted", ask(t, limiters[0], 60), 60)
		r := takeOne(t, w, 0, &rule, 600)
		check.Equal(t, "granted", r.Charged, true)
		checks := []core.Check{{Key: []byte("client"), Rule: &rule, Cost: 600}}
		must.OK(t, w.regions[0].Refund(t.Context(), checks, []core.Result{r}))
		time.Sleep(10 * time.Minute)
		fresh := &link{Store: w.home, oneWay: time.Millisecond} // the other process does not see what follows
		w.regions[0] = must.Get(regions.New(w.locals[0], fresh, regions.Config{Region: "r0", Regions: 2}))(t)
		must.Do(core.New(core.Config{Store: w.regions[0], Limits: []core.Limit{limit}, Timeout: time.Second}))(t)
		time.Sleep(time.Second)
		check.Equal(t, "granted of what is leased", takeOne(t, w, 0, &rule, 1).Allowed, true)
		time.Sleep(time.Second)
		emptied := memstore.New()
		fresh.instead.Store(emptied)
		w.links[1].instead.Store(emptied)
		granted := 61
		for range 60 {
			granted += ask(t, limiters[1], 50)
			time.Sleep(500 * time.Millisecond)
		}
		for takeOne(t, w, 0, &rule, 1).Allowed {
			granted++
		}
		if granted > 1000 {
			t.Errorf("granted %d of 1000", granted)
		}
		settle()
	})
}

// A home that was emptied hears of many keys before it leases again.
func TestAnEmptiedHomeHearsOfManyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys = 1000
		w := newWorld(t, 2, 40*time.Millisecond)
		limit := core.PerHour(1000).FixedWindow().By(keyfuncs.Everyone())
		w.limiters(t, limit)
		rule := must.Get(limit.Rule())(t)
		take := func(region int, cost int64) (granted int) {
			for i := range keys {
				results := make([]core.Result, 1)
				must.OK(t, w.regions[region].Take(t.Context(), []core.Check{{Key: fmt.Append(nil, "client", i), Rule: &rule, Cost: cost}}, results))
				if results[0].Allowed {
					granted++
				}
			}
			return granted
		}
		check.Equal(t, "granted by one region", take(0, 600), keys)
		emptied := memstore.New()
		w.links[0].instead.Store(emptied)
		w.links[1].instead.Store(emptied)
		take(1, 600)
		time.Sleep(6 * time.Second)
		check.Equal(t, "granted by another one", take(1, 600), 0)
		settle()
	})
}
