package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// running is a limit of n requests of all together at the same time.
func running(n int64) core.Limit {
	return core.Concurrent(n).By(keyfuncs.Everyone()).Named("running")
}

func TestHeadersOfRequestsAtTheSameTime(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, running(2), everyone(100).Named("hourly"))
	const policy = `"running";q=2;qu="concurrent-requests", "hourly";q=100;w=3600`
	d := l.Allow(&request{})
	wantHeaders(t, &d, policy, `"running";r=1;t=1, "hourly";r=99;t=3564`, "")
	l.Allow(&request{})
	d = l.Allow(&request{})
	wantHeaders(t, &d, policy, `"running";r=0;t=1, "hourly";r=98;t=3528`, "1")
	wantWait(t, "denied", d, core.ReasonLimitExceeded, time.Second)
	check.Equal(t, "status", d.Status(), http.StatusTooManyRequests)
}

func TestDialectsOfRequestsAtTheSameTime(t *testing.T) {
	t.Parallel()
	d := decidedIn(t, core.Config{Limits: []core.Limit{running(10)}, Headers: core.Draft07 | core.Draft03 | core.XRateLimitDelta},
		core.Result{Remaining: 0, RetryAfter: time.Second, Window: time.Second, ResetAfter: 40 * time.Second})
	wantTold(t, "denied", d, lines("RateLimit-Policy", "10", "RateLimit", "limit=10, remaining=0, reset=40",
		"RateLimit-Limit", "10", "RateLimit-Remaining", "0", "RateLimit-Reset", "40",
		"X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "40", "Retry-After", "1"))
}

func TestSlotsOfALimiter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := core.NewMemory()
		l := limiterOn(t, store, running(3).Lease(2*time.Second).Cost(2))
		first := l.Allow(&request{})
		wantDecision(t, "the first takes two", first, true, core.ReasonWithinLimit, 1)
		wantDecision(t, "two are not there", l.Allow(&request{}), false, core.ReasonLimitExceeded, 1)
		wantDecision(t, "another key, whose cost is said", l.AllowKey(t.Context(), "k", 3), true, core.ReasonWithinLimit, 0)
		time.Sleep(time.Minute)
		wantDecision(t, "as long as the first runs", l.Allow(&request{}), false, core.ReasonLimitExceeded, 1)
		first.Settle(core.Outcome{})
		wantDecision(t, "after it", l.Allow(&request{}), true, core.ReasonWithinLimit, 1)
	})
}

func TestSlotsByDefaultAreHeldForAMinute(t *testing.T) {
	t.Parallel()
	r := mustRule(t, core.Concurrent(7))
	check.All(t, "the rule", []any{r.Algorithm == store.Concurrency, r.Algorithm, r.Window, r.Quota, r.Burst}, true, "concurrency", time.Minute, 7, 7)
}

// Warnings of slots come as of all limits: from the request that reaches a level,
// once per lease.
func TestSlotsWarn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var warned []core.Warning
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{running(4).WarnAt(0.75)}, OnWarning: func(_ context.Context, w core.Warning) {
			warned = append(warned, w)
		}})
		for range 4 {
			l.Allow(&request{})
		}
		if len(warned) != 1 || warned[0].Used != 3 || warned[0].Burst != 4 {
			t.Errorf("warned of %+v", warned)
		}
	})
}

// Not parallel: advice belongs to the process.
func TestATierOfSlotsIsOneOfALimitOfSlots(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, tier core.Limit
		remaining   int64
		advice      string
	}{
		"more slots":        {running(2), core.Concurrent(9).Lease(time.Hour), 8, ""},
		"a rate":            {running(2), core.PerHour(9), 1, `weblimit: limit "running": a tier must be a concurrency limit if the limit is one, and only then`},
		"slots of a rate":   {everyone(2).Named("rate"), core.Concurrent(9), 1, `weblimit: limit "rate": a tier must be a concurrency limit if the limit is one, and only then`},
		"slots in a window": {running(2), core.Concurrent(9).FixedWindow(), 1, `weblimit: limit "running": a concurrency limit can have no other algorithm, got a fixed window`},
	} {
		t.Run(name, func(t *testing.T) {
			advice := newAdvice()
			store, _ := at()
			l := newLimiter(t, core.Config{Store: store, Logger: advice.logger, Limits: []core.Limit{tt.limit.Tiers(plan)}})
			wantDecision(t, name, l.Allow(on(tt.tier, 1)), true, core.ReasonWithinLimit, tt.remaining)
			if tt.advice == "" {
				advice.want(t, "", "")
			} else {
				advice.want(t, core.AdviceTier, tt.advice)
			}
		})
	}
}

// In an outage each process grants its share of the slots by itself, and the store
// never hears of them.
func TestSlotsDuringAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFlaky(true)
		l := newLimiter(t, core.Config{Store: store, Replicas: 3, Limits: []core.Limit{running(6), everyone(90).Named("rate")}})
		ask := func() core.Decision { return l.Allow(&request{}) }
		first, second := ask(), ask()
		wantDecision(t, "during the outage", first, true, core.ReasonOutageLocal, 1, 29)
		wantDecision(t, "during the outage", second, true, core.ReasonOutageLocal, 0, 28)
		wantDecision(t, "all of the share is taken", ask(), false, core.ReasonOutageLocal, 0, 28)
		time.Sleep(time.Minute)
		first.Settle(core.Outcome{})
		second.Settle(core.Outcome{})
		synctest.Wait() // for the renewals of this very instant, which give back what has ended meanwhile
		wantDecision(t, "when they have ended", ask(), true, core.ReasonOutageLocal, 1, 27)
		store.down.Store(false)
		wantDecision(t, "after the outage", ask(), true, core.ReasonWithinLimit, 5, 89)
		wantDecision(t, "only the rate was reconciled", ask(), true, core.ReasonWithinLimit, 4, 85)
	})
}

// A slot is renewed while its request runs, and freed whatever becomes of it, also
// when that is in the middle of a renewal, or when renewals fail for a while.
func TestSlotsAreRenewedAndFreed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var fail atomic.Bool
		store := intercept(func(_ context.Context, call string, _ []core.Check) error {
			if call != "Renew" {
				return nil
			}
			time.Sleep(100 * time.Millisecond)
			if fail.Load() {
				return errors.New("out of order")
			}
			return nil
		})
		store.OnEvent(func(core.Event) {}) // or they would be logged
		l := limiterOn(t, &store, running(2).Lease(3*time.Second))
		for _, ends := range []time.Duration{0, time.Second, time.Second + 50*time.Millisecond, 61 * time.Second, time.Hour + 33*time.Millisecond} {
			d := l.Allow(&request{})
			wantDecision(t, "a slot", d, true, core.ReasonWithinLimit, 1)
			time.Sleep(ends)
			check.Equal(t, fmt.Sprint("slots free after ", ends), unitsLeft(t, l, "all"), 1)
			fail.Store(ends > time.Minute) // the last two renewals that the lease has time for
			time.Sleep(time.Second)
			fail.Store(false)
			d.Settle(core.Outcome{Panicked: true})
			synctest.Wait()
			time.Sleep(200 * time.Millisecond) // a renewal may be under way
			check.Equal(t, fmt.Sprint("slots free after the request of ", ends), unitsLeft(t, l, "all"), 2)
		}
	})
}

// Whoever forgets to settle does not hold a slot for ever.
func TestSlotsOfAForgottenRequestEndWithTheirLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), running(1).Lease(time.Second))
		if d := l.AllowKey(t.Context(), "k", 1); !d.Allowed {
			t.Fatal(d.Reason)
		}
		for range 100 {
			if runtime.GC(); unitsLeft(t, l, "k") == 1 {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error("the slot is held still")
	})
}

func TestRequestsWaitForASlot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), running(2).Wait(time.Minute))
		var most, now, ran atomic.Int64
		atOnce(10, func(int) {
			d := l.AllowKey(context.Background(), "k", 1)
			if !d.Allowed {
				return
			}
			defer d.Settle(core.Outcome{})
			defer now.Add(-1)
			ran.Add(1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(5 * time.Second)
		})
		check.Equal(t, "ran, and at the same time", [2]int64{ran.Load(), most.Load()}, [2]int64{10, 2})
		check.Equal(t, "slots free", unitsLeft(t, l, "k"), 2)
	})
}
