package core_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// forAll returns the limit with one bucket for everyone.
func forAll(l core.Limit) core.Limit { return l.By(keyfuncs.Everyone()) }

// together has n requests decided at once, and returns when each had its turn
// after the start, in order, and how many were denied.
func together(l *core.Limiter, n int) (turns []time.Duration, denied int) {
	start := time.Now()
	var mu sync.Mutex
	atOnce(n, func(int) {
		d := l.AllowKey(context.Background(), "k", 1)
		mu.Lock()
		defer mu.Unlock()
		if d.Allowed {
			turns = append(turns, time.Since(start))
		} else {
			denied++
		}
		d.Settle(core.Outcome{})
	})
	slices.Sort(turns)
	return turns, denied
}

func TestWaitingRequestsLeaveEvenly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), forAll(core.PerSecond(10).LeakyBucket(5*time.Second)))
		turns, denied := together(l, 60)
		// The first at once, 50 more within five seconds, and no room for the others.
		must.Equal(t, "had their turn, and were denied", [2]int{len(turns), denied}, [2]int{51, 9})
		for i, at := range turns {
			check.Equal(t, fmt.Sprintf("request %d left after", i), at, time.Duration(i)*100*time.Millisecond)
		}
	})
}

func TestWaitKeepsTheBurst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), forAll(core.PerSecond(10).Burst(3).Wait(200*time.Millisecond)))
		turns, denied := together(l, 10)
		want := []time.Duration{0, 0, 0, 100 * time.Millisecond, 200 * time.Millisecond}
		check.Slices(t, "turns", turns, want)
		check.Equal(t, "denied", denied, 5)
	})
}

func TestDenialsOfAQueueTellWhenThereIsRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), forAll(core.PerSecond(10).LeakyBucket(time.Second)))
		for range 11 {
			go l.AllowKey(context.Background(), "k", 1)
		}
		synctest.Wait()
		d := l.AllowKey(t.Context(), "k", 1)
		wantWait(t, "denied", d, core.ReasonLimitExceeded, 100*time.Millisecond)
		time.Sleep(d.RetryAfter)
		d = l.AllowKey(t.Context(), "k", 1)
		check.All(t, "after that: allowed, and delayed", []any{d.Allowed, d.Delay()}, true, time.Second)
		if log := d.LogValue().String(); !strings.Contains(log, "reason=delayed") || !strings.Contains(log, "delay=1s") {
			t.Errorf("the log says %s", log)
		}
	})
}

// Trap: an abandoned place in the queue.
func TestWhoLeavesTheQueueFreesItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), forAll(core.PerSecond(1).LeakyBucket(10*time.Second)))
		l.AllowKey(t.Context(), "k", 1)
		ctx, hangUp := context.WithCancel(t.Context())
		left := make(chan core.Decision)
		for range 5 {
			go func() { left <- l.AllowKey(ctx, "k", 1) }()
		}
		synctest.Wait()
		hangUp()
		for range 5 {
			d := <-left
			check.Equal(t, "decided", outcomeOf(d), outcome{false, core.ReasonCanceled})
			check.All(t, "status, and reserved", []any{d.Status(), d.Reserved()}, 503, false)
		}
		d := l.AllowKey(t.Context(), "k", 1)
		check.All(t, "the next", []any{d.Reason, d.Delay()}, core.ReasonDelayed, time.Second)
	})
}

func TestWindowsAreAskedAgain(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"fixed window": core.PerSecond(2).FixedWindow().Wait(time.Second),
		"sliding log":  core.PerSecond(2).SlidingLog().Wait(time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := limiterOn(t, core.NewMemory(), forAll(limit))
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
				turns, denied := together(l, 5)
				want := []time.Duration{0, 0, time.Second, time.Second}
				check.Slices(t, "turns", turns, want)
				check.Equal(t, "denied", denied, 1)
			})
		})
	}
}

func TestWaitersAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := must.Get(core.New(core.Config{
			Store: core.NewMemory(), MaxWaiting: 3, MaxWaitingPerKey: 3,
			Limits: []core.Limit{forAll(core.PerSecond(1).LeakyBucket(time.Minute))},
		}))(t)
		turns, denied := together(l, 10)
		check.Equal(t, "had their turn, and were denied", [2]int{len(turns), denied}, [2]int{4, 6})
		// Denied requests hold no place. One of them may have had a turn before it was turned away, and those behind it left
		// a second later: four were charged, so the fifth has its turn after four seconds.
		d := l.AllowKey(t.Context(), "k", 1)
		check.Equal(t, "the next waited", d.Delay(), max(4*time.Second-slices.Max(turns), 0))
	})
}

func TestSlowDownGrowsFromItsLevel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), forAll(core.Per(10, 24*time.Hour).FixedWindow().SlowDown(0.6, time.Second)))
		for i, millis := range []int64{0, 0, 0, 0, 0, 0, 250, 500, 750, 1000} {
			want := time.Duration(millis) * time.Millisecond
			d := l.AllowKey(t.Context(), "k", 1)
			if !d.Allowed || d.Delay() != want || (d.Reason == core.ReasonDelayed) != (want > 0) {
				t.Errorf("request %d: %v, delayed by %v; want %v", i+1, d.Reason, d.Delay(), want)
			}
		}
		if d := l.AllowKey(t.Context(), "k", 1); d.Allowed {
			t.Error("the limit itself stays")
		}
	})
}

func TestHeadersOfALeakyBucket(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), forAll(core.PerMinute(60).LeakyBucket(time.Minute)))
		for _, want := range []string{`"default";r=0;t=1`, `"default";r=0;t=2`} {
			d := l.AllowKey(t.Context(), "k", 1)
			h := adapter.HeaderMap{}
			d.SetHeaders(h)
			check.Equal(t, "RateLimit-Policy", h.Get("Ratelimit-Policy"), `"default";q=60;w=60`)
			check.Equal(t, "RateLimit", h.Get("Ratelimit"), want)
		}
	})
}

func TestWaitsThatCantWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit core.Limit
		want  string
	}{
		"negative":     {core.PerSecond(1).Wait(-1), "the wait must be from 0 to 1h0m0s, in whole microseconds"},
		"a nanosecond": {core.PerSecond(1).Wait(time.Millisecond + 1), "the wait must be from 0 to 1h0m0s, in whole microseconds"},
		"two hours":    {core.PerSecond(1).LeakyBucket(2 * time.Hour), "the wait must be from 0 to 1h0m0s, in whole microseconds"},
		"no level":     {core.PerSecond(1).SlowDown(0, time.Second), "above 0 and below 1"},
		"NaN":          {core.PerSecond(1).SlowDown(math.NaN(), time.Second), "above 0 and below 1"},
		"no delay":     {core.PerSecond(1).SlowDown(0.5, 0), "the delay of SlowDown must be above 0"},
		"strikes":      {blocking(core.PerSecond(1).FixedWindow().Wait(time.Second)), "a waiting request asks again and again, and each denial would count"},
		"slot strikes": {blocking(core.Concurrent(1).Wait(time.Second)), "Penalty and Wait can be combined on a token bucket only"},
		"cost":         {core.PerSecond(10).Cost(2).LeakyBucket(time.Second), "can never fit"},
	} {
		_, err := c.limit.By(keyfuncs.Everyone()).Named("x").Rule()
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `limit "x"`) {
			t.Errorf("%s: error %v, want %q in it, and the limit", name, err, c.want)
		}
	}
}
