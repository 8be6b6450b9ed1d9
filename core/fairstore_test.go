package core_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// late is a store whose answers are on the way for a while.
type late struct{ *core.Memory }

const onTheWay = 20 * time.Millisecond

func (s late) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	err := s.Memory.Take(ctx, checks, results)
	time.Sleep(onTheWay)
	return err
}

// Trap: a slot is given back while a denial is on the way, and the request sleeps over it.
func TestASlotThatIsGivenBackDuringADenialIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, late{core.NewMemory()}, fairly(core.Concurrent(1).Wait(time.Minute)))
		u := newLineup(l, 40*time.Millisecond)
		u.come(t.Context(), "first", "a", "") // until 60 ms
		time.Sleep(20 * time.Millisecond)
		u.come(t.Context(), "second", "b", "") // asks at 20 and 50 ms, is denied at 70, and asks again
		u.end(t)
		check.Equal(t, "served", u.at["second"], 90*time.Millisecond)
	})
}

// A request that fails for good hands on the slot that it was called for, and one that has to wait for something else, too.
func TestASlotIsHandedOn(t *testing.T) {
	t.Parallel()
	for name, each := range map[string]core.Limit{"denied": core.PerHour(2).FixedWindow(), "elsewhere": core.PerSecond(2).SlidingLog().Wait(time.Minute)} {
		synctest.Test(t, func(t *testing.T) {
			u := newLineup(limiterOn(t, core.NewMemory(), fairly(core.Concurrent(1).Wait(time.Minute)), each.By(keyfuncs.User("client")).Named("each")), 100*time.Millisecond)
			for i := range 3 {
				u.come(t.Context(), fmt.Sprint("m", i), "m", "")
			}
			for i := range 2 {
				u.come(t.Context(), fmt.Sprint("a", i), "a", "")
			}
			time.Sleep(250 * time.Millisecond)
			check.Equal(t, name+": asking", u.limiter.Asking(), 0)
			u.end(t)
			check.All(t, name, []any{u.at["m1"], u.at["a0"], u.at["a1"]}, 100*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond)
		})
	}
}

// overShare is a store that denies all but the first request, since their clients are over their shares.
type overShare struct{ intercepted }

func (s *overShare) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	err := s.intercepted.Take(ctx, checks, results)
	for i := range results {
		if !results[i].Allowed {
			results[i].Standing, results[i].RetryAfter = store.OverShare, 30*time.Second
		}
	}
	return err
}

// Trap: whoever is denied, hangs up and comes again leaves something behind each time.
func TestClientsThatLeaveRestNoLonger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		from := &overShare{intercept(func(context.Context, string, []core.Check) error { return nil })}
		l := limiterOn(t, from, fairly(core.Concurrent(1).Wait(time.Minute)))
		u := newLineup(l, time.Minute)
		u.come(t.Context(), "first", "a", "")
		u.come(t.Context(), "stays", "b", "")
		for i := range 1000 {
			ctx, hangUp := context.WithCancel(t.Context())
			u.come(ctx, fmt.Sprint(i), fmt.Sprint(i), "")
			hangUp()
			synctest.Wait()
		}
		check.Equal(t, "waiting", l.Stats().Waiting, 1)
		if n := l.Resting(); n > 100 {
			t.Errorf("%d clients rest, of which one waits", n)
		}
		u.end(t)
	})
}

func TestMaxWaitingPerKeyIsOfAClient(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLimiter(t, core.Config{Store: core.NewMemory(), MaxWaiting: 100, MaxWaitingPerKey: 2, Limits: []core.Limit{fairly(core.Concurrent(1).Wait(time.Minute))}})
		u := newLineup(l, time.Second)
		for _, client := range []string{"a", "b"} {
			for i := range 4 {
				u.come(t.Context(), fmt.Sprint(client, i), client, "")
			}
		}
		check.Equal(t, "waiting", l.Stats().Waiting, 4)
		u.end(t)
	})
}

// Trap: a call that is refused after its client is known leaves the client to the next one that takes its place.
func TestARefusedRequestLeavesNobodyInLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		limit := fairly(core.PerMinute(4).Burst(2).Wait(time.Hour)).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour)
		l := newLimiter(t, core.Config{Store: core.NewMemory(), MaxWaiting: 100, MaxWaitingPerKey: 1, Limits: []core.Limit{limit}})
		u := newLineup(l, 0)
		u.come(t.Context(), "x1", "x", "")
		u.come(t.Context(), "x2", "x", "")
		two := map[string][]string{"Idempotency-Key": {"1", "2"}}
		d := l.Allow(&request{values: map[any]any{"client": "a"}, lines: two})
		check.Equal(t, "of two operations", d.Reason, core.ReasonAmbiguousKey)
		u.come(t.Context(), "ab", "ab", "")
		u.come(t.Context(), "a", "a", "")
		check.Equal(t, "waiting, one of each client", l.Stats().Waiting, 2)
		u.end(t)
	})
}

func TestWhoIsNextAsksOnceMoreWhenItsTimeIsUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		from := core.NewMemory()
		limit := fairly(core.Concurrent(1).Wait(time.Second)).Named("slots")
		l, elsewhere := limiterOn(t, from, limit), limiterOn(t, from, limit)
		held := elsewhere.Allow(&request{values: map[any]any{"client": "x", "user": "x"}})
		u := newLineup(l, 0)
		u.come(t.Context(), "next", "a", "")
		time.Sleep(990 * time.Millisecond)
		held.Settle(core.Outcome{})
		served, denied := u.end(t)
		check.All(t, "served and denied", []any{served, denied, u.at["next"]}, "next", "", time.Second)
	})
}

// What asks without charging does not wait.
func TestFreeRequestsDoNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), fairly(core.Concurrent(1).Wait(time.Minute)))
		held := l.AllowKey(t.Context(), "k", 1)
		defer waitingFor(t, l, 3, "k")()
		start := time.Now()
		d := l.AllowKey(t.Context(), "k", 0)
		check.All(t, "waited", []any{time.Since(start), d.Allowed}, time.Duration(0), true)
		held.Settle(core.Outcome{})
	})
}

// A process has a part of each minimum and maximum in an outage, as of the limit.
func TestMinimaInAnOutage(t *testing.T) {
	t.Parallel()
	for minimum := range int64(41) {
		of := func(keyfuncs.Request) core.Share { return core.Share{Minimum: minimum, Maximum: 50} }
		l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 7, Limits: []core.Limit{everyone(100).Fair(core.Shares{By: byClient, Guaranteed: 40, Of: of})}})
		granted := 0
		for d := l.Allow(client("a")); d.Allowed; d = l.Allow(client("a")) {
			granted++
		}
		if granted != 8 {
			t.Errorf("with a minimum of %d: %d requests were granted, want a seventh of 50", minimum, granted)
		}
	}
}
