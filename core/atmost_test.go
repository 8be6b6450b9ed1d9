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

func wantAtMost(t *testing.T, what string, l *core.Limiter, n, want int64) core.Decision {
	t.Helper()
	granted, d := l.AllowKeyAtMost(t.Context(), "k", n)
	check.Equal(t, fmt.Sprintf("%s: granted of %d", what, n), granted, want)
	check.Equal(t, what+": allowed", d.Allowed, want > 0)
	return d
}

func TestAllowAtMostAsksOnceWhereAllFits(t *testing.T) {
	t.Parallel()
	store := newRemote()
	store.Memory, _ = at()
	calls := func(what string, take, peek int64) {
		t.Helper()
		check.Equal(t, what+": calls", [2]int64{store.takes.Swap(0), store.peeks.Swap(0)}, [2]int64{take, peek})
	}
	l := limiterOn(t, store, everyone(100).Named("hour"), core.PerDay(130).FixedWindow().By(keyfuncs.Everyone()).Named("day"))
	wantWait(t, "all", wantAtMost(t, "all", l, 60, 60), core.ReasonWithinLimit, 0)
	calls("all", 1, 0)
	check.Equal(t, "until one more fits", wantAtMost(t, "a part", l, 60, 40).RetryAfter, 36*time.Second)
	calls("a part", 2, 0)
	wantWait(t, "none", wantAtMost(t, "none", l, 60, 0), core.ReasonLimitExceeded, 36*time.Second)
	calls("none", 2, 0)
	wantAtMost(t, "one", l, 1, 0)
	calls("one", 1, 0)
}

func TestAllowAtMostWithOddNumbers(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(5))
	granted, d := l.AllowKeyAtMost(t.Context(), "k", -1)
	wantDecision(t, "a negative number", d, false, core.ReasonInvalidCost)
	check.Equal(t, "granted", granted, 0)
	granted, d = l.AllowKeyAtMost(t.Context(), "k", 0)
	check.All(t, "0 units", []any{granted, d.Allowed, d.RetryAfter}, 0, true, 0*time.Second)
	wantAtMost(t, "far too many", l, math.MaxInt64, 5)
	wantAtMost(t, "then", l, math.MaxInt64, 0)
}

func TestAllowAtMostDoesNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, limit := range map[string]core.Limit{
			"a queue":        core.PerSecond(1).Burst(4).Wait(time.Minute),
			"a leaky bucket": core.PerSecond(1).Burst(4).LeakyBucket(time.Minute),
			"a window":       core.PerHour(4).FixedWindow().Wait(time.Minute),
			"a slow-down":    core.PerHour(4).SlowDown(0.1, time.Minute),
		} {
			l := limiterOn(t, core.NewMemory(), limit.By(keyfuncs.Everyone()))
			began := time.Now()
			wantAtMost(t, name, l, 9, 4)
			if d := wantAtMost(t, name, l, 9, 0); d.RetryAfter <= 0 || d.Delay() != 0 {
				t.Errorf("%s: RetryAfter %v, delay %v", name, d.RetryAfter, d.Delay())
			}
			check.Equal(t, name+": waited", time.Since(began), 0)
		}
	})
}

func TestAllowAtMostOfSlots(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), core.Concurrent(5).By(keyfuncs.Everyone()))
	first := wantAtMost(t, "first", l, 3, 3)
	second := wantAtMost(t, "second", l, 3, 2)
	check.Equal(t, "the hint", second.RetryAfter, time.Second)
	wantAtMost(t, "third", l, 3, 0)
	first.Settle(core.Outcome{})
	drained(t, l)
	third := wantAtMost(t, "after the first has ended", l, 9, 3)
	second.Settle(core.Outcome{})
	third.Settle(core.Outcome{})
	drained(t, l)
	wantAtMost(t, "after all have ended", l, 9, 5)
}

func TestAllowAtMostSettlesEstimates(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(10).Estimate(1))
	d := wantAtMost(t, "first", l, 99, 10)
	must.OK(t, core.Spend(core.NewContext(t.Context(), d), 4))
	d.Settle(core.Outcome{})
	drained(t, l)
	wantAtMost(t, "after the settlement", l, 99, 6)
}

func TestAllowAtMostInShadowMode(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(5).Named("real"), everyone(3).Named("trial").Shadow())
	if d := wantAtMost(t, "first", l, 9, 5); d.Reason != core.ReasonShadowed || d.Results()[1].Charged {
		t.Errorf("%v, %+v", d.Reason, d.Results())
	}
	l = limiterOn(t, core.NewMemory(), everyone(3).Shadow())
	wantAtMost(t, "only shadows", l, 9, 9)
}

// Only a denial of everything is one to a penalty, and a block denies all.
func TestAllowAtMostAndPenalties(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(10).Penalty(core.Block{After: 2, Within: time.Hour, For: time.Minute}))
	for _, want := range []int64{7, 3, 0, 0} {
		d := wantAtMost(t, "before the block", l, 7, want)
		if want == 0 && d.Reason == core.ReasonBlocked {
			break
		}
	}
	d := wantAtMost(t, "blocked", l, 7, 0)
	wantWait(t, "blocked, and one unit after it", d, core.ReasonBlocked, 6*time.Minute)
}

func TestAllowAtMostInAnOutage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits []core.Limit
		want   []int64
		reason core.Reason
	}{
		"allow":            {[]core.Limit{everyone(10).OnOutage(core.Allow)}, []int64{6, 6, 6}, core.ReasonOutageAllowed},
		"deny":             {[]core.Limit{everyone(10).OnOutage(core.Deny)}, []int64{0, 0}, core.ReasonOutageDenied},
		"local":            {[]core.Limit{everyone(10)}, []int64{5, 0}, core.ReasonOutageLocal}, // a share of 5
		"local, and loose": {[]core.Limit{everyone(10).Named("a"), everyone(100).Named("b")}, []int64{5, 0}, core.ReasonOutageLocal},
		"local, allow":     {[]core.Limit{everyone(10).Named("a"), everyone(4).Named("b").OnOutage(core.Allow)}, []int64{4, 1, 0}, core.ReasonOutageLocal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 2, Limits: tt.limits})
			for _, want := range tt.want {
				if d := wantAtMost(t, name, l, 6, want); d.Reason != tt.reason || d.Err == nil {
					t.Errorf("%v, %v", d.Reason, d.Err)
				}
			}
		})
	}
	t.Run("what is granted in an outage is charged afterwards", func(t *testing.T) {
		t.Parallel()
		store := newFlaky(true)
		l := newLimiter(t, core.Config{Store: store, Replicas: 2, Limits: []core.Limit{core.PerDay(10).FixedWindow().By(keyfuncs.Everyone())}})
		wantAtMost(t, "in the outage", l, 99, 5)
		store.down.Store(false)
		wantAtMost(t, "the first request, which charges", l, 1, 1)
		wantAtMost(t, "afterwards", l, 99, 4)
	})
	t.Run("a call in an outage leaves nothing behind for others", func(t *testing.T) {
		t.Parallel()
		l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 10, Limits: []core.Limit{everyone(10)}})
		wantAtMost(t, "one", l, 9, 1)
		if d := l.AllowKey(t.Context(), "other", 9); !d.Allowed { // at least one request of this cost
			t.Errorf("denied: %v", d.Reason)
		}
	})
}

// A limit for outages can deny a batch before any store is asked. Then there is no result of the limits that it replaces.
func TestAllowAtMostIsDeniedByALimitForOutages(t *testing.T) {
	t.Parallel()
	queue := everyone(10).Named("queue").Wait(time.Second)
	for name, limits := range map[string][]core.Limit{"a queue": {queue}, "a queue behind another limit": {everyone(100).Named("first"), queue}} {
		l := newLimiter(t, core.Config{
			Store: newFlaky(true), Limits: limits,
			Fallback: core.Fallback{Limits: []core.Limit{core.PerHour(5).By(keyfuncs.User("user")).Named("away").OnMissingKey(core.DenyRequest)}},
		})
		granted, d := l.AllowAtMost(keyfuncs.Values{}, 5)
		check.Equal(t, name+": granted", granted, 0)
		check.Equal(t, name+": the reason", d.Reason, core.ReasonMissingKey)
		check.Equal(t, name+": the limit", d.Results()[0].Rule.Name, "away")
	}
}

func TestAllowAtMostIsObservedOnce(t *testing.T) {
	t.Parallel()
	memory, _ := at()
	seen := new(recorder)
	l := newLimiter(t, core.Config{Store: memory, Limits: []core.Limit{everyone(10)}, Observe: seen})
	for _, want := range []int64{6, 4, 0} {
		wantAtMost(t, "observed", l, 6, want)
	}
	var got []string
	for _, o := range seen.decisions {
		got = append(got, fmt.Sprint(o.costs, o.decision.Reason))
	}
	check.Slices(t, "observed", got, []string{"[6] within limit", "[4] within limit", "[1] limit exceeded"})
}
