package prefetch_test

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
	"github.com/weblimit/weblimit/internal/prefetch"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// store is a core.Memory that counts its calls, and fails when told to.
type store struct {
	*core.Memory

	takes, leases, refunds, returned atomic.Int64
	down, refuse                     atomic.Bool
	onTake, onLease                  func()
}

var errDown = errors.New("down")

func (s *store) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	s.takes.Add(1)
	if s.onTake != nil {
		s.onTake()
	}
	if s.down.Load() {
		return errDown
	}
	return s.Memory.Take(ctx, checks, results)
}

// Lease is refused while a penalty counts, as the interface asks for. Denials go on to count while
// a slice lasts, as a Memory knows nothing of slices.
func (s *store) Lease(ctx context.Context, c *core.Check, _ time.Duration, r *core.Result) error {
	checks, results := []core.Check{*c}, make([]core.Result, 1)
	s.leases.Add(1)
	if err := s.Peek(ctx, checks, results); err != nil || !results[0].Allowed || s.refuse.Load() {
		*r = results[0]
		return err
	}
	err := s.Take(ctx, checks, results)
	if s.onLease != nil {
		s.onLease()
	}
	*r = results[0]
	return err
}

func (s *store) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	if _, bounded := ctx.Deadline(); !bounded {
		panic("a return without a deadline")
	}
	s.refunds.Add(1)
	if s.down.Load() {
		return errDown
	}
	for i := range checks {
		s.returned.Add(checks[i].Cost)
	}
	return s.Memory.Refund(ctx, checks, results)
}

// clock is the time of a synctest bubble.
type clock struct{ start time.Time }

func (c clock) Now() int64 { return int64(time.Since(c.start)) }

func (clock) After(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// rig is a store with a Prefetcher on it, in a bubble whose time moves when told to.
type rig struct {
	*testing.T
	*prefetch.Prefetcher
	store *store
}

const (
	maxAge   = time.Second
	patience = time.Second
)

func run(t *testing.T, fraction float64, f func(r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{Memory: core.NewMemory()}
		r := &rig{t, prefetch.New(s, clock{time.Now()}, fraction, maxAge, patience), s}
		f(r)
		r.pass(2 * maxAge) // for the timers of slices
	})
}

func rule(t testing.TB, l core.Limit) *core.Rule {
	t.Helper()
	r := must.Get(l.Rule())(t)
	return &r
}

func checkOf(key string, rule *core.Rule, cost int64) core.Check {
	return core.Check{Key: []byte(key), Rule: rule, Cost: cost}
}

func (r *rig) take(checks ...core.Check) []core.Result {
	r.Helper()
	results := make([]core.Result, len(checks))
	must.OK(r, r.Take(r.Context(), checks, results))
	return results
}

// remaining is what the store has left.
func (r *rig) remaining(c core.Check) int64 {
	r.Helper()
	results := make([]core.Result, 1)
	must.OK(r, r.store.Peek(r.Context(), []core.Check{c}, results))
	return results[0].Remaining
}

// pass lets time pass in the bubble, which takes none of ours, and what it sets off be done.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d) // in a bubble
	synctest.Wait()
}

// atTheHour goes to the beginning of the next hour, so that no window ends while a test runs.
func (r *rig) atTheHour() { r.pass(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))) }

// heat asks n times.
func (r *rig) heat(n int, checks ...core.Check) {
	r.Helper()
	for range n {
		for i, result := range r.take(checks...) {
			if !result.Allowed && !checks[i].Shadow {
				r.Fatalf("denied: %+v", result)
			}
		}
	}
}

var windows = map[string]core.Limit{
	"token bucket":   core.PerHour(100_000).Named("l"),
	"fixed window":   core.PerHour(100_000).FixedWindow().Named("l"),
	"first use":      core.PerHour(100_000).FromFirstUse().Named("l"),
	"sliding window": core.PerHour(100_000).SlidingWindow().Named("l"),
}

func TestAHotKeyIsDecidedLocally(t *testing.T) {
	t.Parallel()
	for name, limit := range windows {
		t.Run(name, func(t *testing.T) {
			run(t, 0.1, func(r *rig) {
				c := checkOf("k", rule(t, limit), 1)
				r.heat(10_000, c)
				if r.store.takes.Load() > 120 {
					t.Errorf("10,000 requests took %d calls", r.store.takes.Load())
				}
				if got := r.remaining(c); got > 90_000 || got < 80_000 {
					t.Errorf("%d remain after 10,000 of 100,000, want at most 90,000 and no less than the fraction below it", got)
				}
			})
		})
	}
}

func TestAKeyThatIsNotHotIsDecidedByTheStore(t *testing.T) {
	run(t, 0.5, func(r *rig) {
		c := checkOf("k", rule(t, core.PerHour(1_000_000)), 1)
		for range 300 {
			r.heat(1, c)
			r.pass(maxAge / 50)
		}
		if r.store.takes.Load() != 300 {
			t.Errorf("300 requests took %d calls, want each one", r.store.takes.Load())
		}
	})
}

func TestWhatIsNotSpentIsReturned(t *testing.T) {
	t.Parallel()
	for name, limit := range windows {
		t.Run(name, func(t *testing.T) {
			run(t, 0.1, func(r *rig) {
				r.atTheHour()
				c := checkOf("k", rule(t, limit), 1)
				r.heat(1000, c)
				if got := r.remaining(c); got >= 99_000 {
					t.Fatalf("%d remain: nothing is prefetched", got)
				}
				r.pass(maxAge)
				// A bucket is given back only what time has not: 28 units a second.
				if got := r.remaining(c); got < 99_000 || got > 99_060 {
					t.Errorf("%d remain a while after 1,000 of 100,000 were used, want 99,000", got)
				}
				if r.store.refunds.Load() == 0 {
					t.Error("no call returned anything")
				}
			})
		})
	}
}

func TestAnEndedWindowsSliceIsNotSpent(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"fixed window":   core.Per(100_000, maxAge/2).FixedWindow().Named("l"),
		"first use":      core.Per(100_000, maxAge/2).FromFirstUse().Named("l"),
		"sliding window": core.Per(100_000, maxAge/2).SlidingWindow().Named("l"),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 0.1, func(r *rig) {
				r.pass(time.Until(time.Now().Truncate(maxAge).Add(maxAge + time.Millisecond)))
				c := checkOf("k", rule(t, limit), 1)
				r.heat(1000, c)
				if got := r.remaining(c); got >= 99_000 {
					t.Fatalf("%d remain: nothing is prefetched", got)
				}
				r.pass(maxAge/2 - time.Millisecond) // to the next window
				before := r.store.takes.Load()
				r.take(c)
				if r.store.takes.Load() == before {
					t.Error("a request was decided by a slice of the window before")
				}
			})
		})
	}
}

// A caller that asks on and on gets exactly the quota, of one process.
func TestTheLastUnitsAreDecidedByTheStore(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"token bucket":   core.PerHour(20_000),
		"fixed window":   core.PerHour(20_000).FixedWindow(),
		"first use":      core.PerHour(20_000).FromFirstUse(),
		"sliding window": core.PerHour(20_000).SlidingWindow(),
	} {
		for _, cost := range []int64{1, 3} {
			t.Run(fmt.Sprint(name, cost), func(t *testing.T) {
				run(t, 0.3, func(r *rig) {
					r.atTheHour()
					c := checkOf("k", rule(t, limit), cost)
					granted := int64(0)
					for i := range 30_000 {
						if i%1000 == 0 {
							r.pass(time.Microsecond) // for what is returned in the background
						}
						if r.take(c)[0].Allowed {
							granted += cost
						}
					}
					if granted > 20_000 || granted <= 20_000-cost {
						t.Errorf("granted %d of 20,000", granted)
					}
				})
			})
		}
	}
}

func TestResultsOfASliceArePlausible(t *testing.T) {
	t.Parallel()
	for name, limit := range windows {
		t.Run(name, func(t *testing.T) {
			run(t, 0.1, func(r *rig) {
				r.atTheHour()
				c := checkOf("k", rule(t, limit), 2)
				exact := core.NewMemory()
				local := 0
				for range 3000 {
					before := r.store.takes.Load()
					got := r.take(c)[0]
					if r.store.takes.Load() == before {
						local++
					}
					want := make([]core.Result, 1)
					must.OK(t, exact.Take(t.Context(), []core.Check{c}, want))
					near := func(what string, a, b, by int64) {
						t.Helper()
						if a-b > by || b-a > by {
							t.Fatalf("%s is %d, want about %d: got %+v, of an exact store %+v", what, a, b, got, want[0])
						}
					}
					if !got.Allowed || !got.Charged || got.Cached || got.RetryAfter != 0 {
						t.Fatalf("got %+v", got)
					}
					near("Remaining", got.Remaining, want[0].Remaining, c.Cost)
					near("At", got.At, want[0].At, 1)
					near("ResetAfter", int64(got.ResetAfter), int64(want[0].ResetAfter), int64(100*time.Millisecond))
					near("Window", int64(got.Window), int64(want[0].Window), int64(100*time.Millisecond))
					r.pass(100 * time.Microsecond)
				}
				if local < 2500 {
					t.Errorf("only %d of 3,000 were decided locally", local)
				}
			})
		})
	}
}

func TestAResetDropsASlice(t *testing.T) {
	run(t, 0.1, func(r *rig) {
		c := checkOf("k", rule(t, core.PerHour(100_000).FixedWindow()), 1)
		r.heat(1000, c)
		r.Forget([]core.Check{c})
		must.OK(t, r.store.Reset(t.Context(), []core.Check{c}))
		before := r.store.takes.Load()
		r.take(c)
		if r.store.takes.Load() == before {
			t.Error("the slice was spent after the reset")
		}
		r.pass(2 * maxAge)
		if r.store.returned.Load() != 0 && r.remaining(c) > 100_000-1 {
			t.Errorf("%d units were returned to a key that was reset", r.store.returned.Load())
		}
	})
}

// A slice that was on its way when the key was reset is not used: the store may
// have forgotten it.
func TestAResetDropsASliceThatIsUnderWay(t *testing.T) {
	run(t, 0.1, func(r *rig) {
		c := checkOf("k", rule(t, core.PerHour(100_000)), 1)
		r.heat(64, c) // the next takes a slice
		r.store.onTake = func() { r.Forget([]core.Check{c}) }
		r.heat(1, c)
		r.store.onTake = nil
		before := r.store.takes.Load()
		r.heat(1, c)
		if r.store.takes.Load() == before {
			t.Error("a slice that a reset may have forgotten was spent")
		}
	})
}

func TestALimitBesideAHotOneIsAskedForAlone(t *testing.T) {
	run(t, 0.1, func(r *rig) {
		global := rule(t, core.PerHour(1_000_000).Named("global"))
		each := rule(t, core.PerHour(2).Named("each"))
		granted := int64(0)
		for i := range 3000 {
			results := r.take(checkOf("all", global, 1), checkOf(fmt.Sprint("user", i/3), each, 1))
			want := i%3 < 2
			for _, got := range results {
				if got.Charged != want {
					t.Fatalf("request %d: got %+v, want charged=%v", i, results, want)
				}
			}
			if !results[0].Allowed || results[1].Allowed != want {
				t.Fatalf("request %d: got %+v", i, results)
			}
			if want {
				granted++
			}
		}
		r.pass(maxAge)
		used := 1_000_000 - r.remaining(checkOf("all", global, 1))
		if used > granted || used < granted-600 { // 278 are regained a second
			t.Errorf("%d units count as used, want at most %d and little less: denied requests take nothing from a slice", used, granted)
		}
	})
}

func TestShadowChecksArePrefetched(t *testing.T) {
	run(t, 0.2, func(r *rig) {
		enforced := checkOf("k", rule(t, core.PerHour(1_000_000).FixedWindow().Named("enforced")), 1)
		shadow := checkOf("k", rule(t, core.PerHour(5000).FixedWindow().Named("shadow")), 1)
		shadow.Shadow = true
		r.atTheHour()
		fitted := 0
		for i := range 6000 {
			if i%100 == 0 {
				r.pass(time.Microsecond) // for what is returned in the background
			}
			results := r.take(enforced, shadow)
			if !results[0].Charged || results[1].Allowed != results[1].Charged {
				t.Fatalf("got %+v", results)
			}
			if results[1].Allowed {
				fitted++
			}
		}
		if fitted != 5000 {
			t.Errorf("%d requests fitted a shadow limit of 5,000", fitted)
		}
		if r.store.takes.Load() > 2500 {
			t.Errorf("6,000 requests, 1,000 of them beyond the shadow limit, took %d calls", r.store.takes.Load())
		}
	})
}

func TestLogsAndFreeChecksAreNotPrefetched(t *testing.T) {
	run(t, 0.5, func(r *rig) {
		r.heat(200, checkOf("k", rule(t, core.PerHour(5000).SlidingLog()), 1))
		r.heat(200, checkOf("k", rule(t, core.PerHour(5000)), 0))
		check.Equal(t, "calls that 400 requests took", r.store.takes.Load(), 400)
	})
}

// Slices see a process through a short outage, and no further.
func TestSlicesDecideWhileTheStoreIsOut(t *testing.T) {
	run(t, 0.5, func(r *rig) {
		c := checkOf("k", rule(t, core.PerHour(1_000_000)), 1)
		r.heat(5000, c)
		r.store.down.Store(true)
		local := 0
		for r.Take(t.Context(), []core.Check{c}, make([]core.Result, 1)) == nil {
			local++
		}
		if local == 0 {
			t.Error("nothing was decided locally")
		}
		r.pass(2 * maxAge) // what is left can't be returned
		r.store.down.Store(false)
		r.heat(200, c)
		if r.store.refunds.Load() > 3 {
			t.Errorf("%d attempts to return, want no more than one per slice", r.store.refunds.Load())
		}
	})
}

func TestAKeyWithOtherNumbersHasSlicesOfItsOwn(t *testing.T) {
	run(t, 0.1, func(r *rig) {
		r.heat(1000, checkOf("k", rule(t, core.PerHour(100_000).Named("l")), 1))
		before := r.store.takes.Load()
		r.heat(10, checkOf("k", rule(t, core.PerHour(200_000).Named("l")), 1))
		check.Equal(t, "calls that 10 requests under other numbers took", r.store.takes.Load()-before, 10)
	})
}

func TestThrowAwayKeysDoNotPushOutAHotOne(t *testing.T) {
	run(t, 0.1, func(r *rig) {
		limit := rule(t, core.PerHour(1_000_000))
		hot := checkOf("hot", limit, 1)
		for i := range 5000 {
			r.heat(1, hot)
			for j := range 3 {
				r.heat(1, checkOf(fmt.Sprint("throw-away", i, j), limit, 1))
			}
			r.pass(10 * time.Microsecond)
		}
		if got := r.store.takes.Load() - 15_000; got > 500 {
			t.Errorf("5,000 requests of a hot key among 15,000 others took %d calls", got)
		}
	})
}

// Many goroutines, and slices that run out all the time: nothing is granted
// that was not charged, and all that is not spent comes back.
func TestConcurrentCallers(t *testing.T) {
	t.Parallel()
	s := &store{Memory: core.NewMemory()}
	quota := long.Rounds[int64](10_000, 40_000)
	l := prefetch.New(s, clock{time.Now()}, 0.02, 20*time.Millisecond, patience)
	a, b := checkOf("a", rule(t, core.Per(quota, 1000*time.Hour).FixedWindow().Named("a")), 1), checkOf("b", rule(t, core.Per(2*quota, 1000*time.Hour).Named("b")), 2)
	var all sync.WaitGroup
	var mu sync.Mutex
	granted := int64(0)
	for range 16 {
		all.Go(func() {
			mine := int64(0)
			results := make([]core.Result, 2)
			for range long.Rounds(1000, 4000) {
				if err := l.Take(t.Context(), []core.Check{a, b}, results); err != nil {
					t.Error(err)
					return
				}
				if results[0].Charged != results[1].Charged {
					t.Errorf("not all or nothing: %+v", results)
				}
				for _, r := range results {
					if r.Remaining < 0 || r.Remaining > 2*quota {
						t.Errorf("got %+v", r)
					}
				}
				if results[0].Charged {
					mine++
				}
			}
			mu.Lock()
			granted += mine
			mu.Unlock()
		})
	}
	all.Wait()
	if granted > quota {
		t.Errorf("granted %d of %d", granted, quota)
	}
	results := make([]core.Result, 1)
	wait.For(t, "all that was not spent has come back", func() error {
		must.OK(t, s.Peek(t.Context(), []core.Check{a}, results))
		if results[0].Remaining != quota-granted {
			return fmt.Errorf("%d granted and %d remain of %d", granted, results[0].Remaining, quota)
		}
		return nil
	})
}
