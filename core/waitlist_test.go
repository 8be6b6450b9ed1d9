package core_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// remote is a store that counts its calls, as if each were a round trip.
type remote struct {
	intercepted
	takes, peeks, refunds atomic.Int64
}

func newRemote() *remote {
	r := new(remote)
	calls := map[string]*atomic.Int64{"Take": &r.takes, "Peek": &r.peeks, "Refund": &r.refunds}
	r.intercepted = intercept(func(_ context.Context, call string, _ []core.Check) error {
		if n := calls[call]; n != nil {
			n.Add(1)
		}
		return nil
	})
	return r
}

func (r *remote) calls() int64 { return r.takes.Load() + r.refunds.Load() }

// waitingFor has n requests of each key wait, and returns what lets them go.
func waitingFor(t *testing.T, l *core.Limiter, n int, keys ...string) (hangUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	for _, key := range keys {
		for range n {
			go l.AllowKey(ctx, key, 1)
		}
	}
	synctest.Wait()
	return cancel
}

// Trap: one client fills the waitlist, and another client without a queue is denied.
func TestNobodyTakesAllPlacesInLine(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{1, 3, 7, 30} {
		synctest.Test(t, func(t *testing.T) {
			l := limiterOn(t, core.NewMemory(), core.PerSecond(rate).LeakyBucket(time.Hour).By(keyfuncs.User("id")))
			defer waitingFor(t, l, 1200, "user:mallory")()
			start := time.Now()
			check.Equal(t, fmt.Sprintf("%d a second: whoever has nobody in front", rate), outcomeOf(l.AllowKey(t.Context(), "user:alice", 1)), outcome{true, core.ReasonWithinLimit})
			check.Equal(t, fmt.Sprintf("%d a second: whoever waits for herself alone", rate), outcomeOf(l.AllowKey(t.Context(), "user:alice", 1)), outcome{true, core.ReasonDelayed})
			if took, pace := time.Since(start), time.Second/time.Duration(rate)+2*time.Microsecond; took > pace {
				t.Errorf("%d a second: alice waited %v, want %v", rate, took, pace)
			}
		})
	}
}

// However many keys want all, each gets a part, and one more finds a place.
func TestPlacesInLineAreShared(t *testing.T) {
	t.Parallel()
	for _, greedy := range []int{1, 2, 4, 9} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, core.Config{
				Store: core.NewMemory(), MaxWaiting: 100,
				Limits: []core.Limit{core.PerSecond(1).LeakyBucket(time.Hour).By(keyfuncs.User("id"))},
			})
			var group sync.WaitGroup
			ctx, hangUp := context.WithCancel(t.Context())
			waited := make([]atomic.Int64, greedy)
			for range 120 { // in turn, as they come
				for i := range greedy {
					group.Go(func() {
						if d := l.AllowKey(ctx, fmt.Sprint("user:", i), 1); d.Reason == core.ReasonCanceled {
							waited[i].Add(1)
						}
					})
					synctest.Wait()
				}
			}
			wantAllowed(t, fmt.Sprintf("a further client beside %d greedy ones", greedy), l.AllowKey(t.Context(), "user:late", 1))
			hangUp()
			group.Wait()
			for i := range waited {
				if n := int(waited[i].Load()); n < 100/(greedy+1)-1 || n > 100/(greedy+1)+1 {
					t.Errorf("client %d of %d has %d of 100 places, want 1 in %d", i, greedy, n, greedy+1)
				}
			}
		})
	}
}

func TestMaxWaitingPerKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLimiter(t, core.Config{
			Store: core.NewMemory(), MaxWaiting: 10, MaxWaitingPerKey: 3,
			Limits: []core.Limit{core.PerSecond(1).LeakyBucket(time.Hour).By(keyfuncs.User("id"))},
		})
		turns, denied := together(l, 20)
		check.Equal(t, "had their turn, and were denied", [2]int{len(turns), denied}, [2]int{4, 16})
	})
}

// Who finds no place is told to come when those in front have gone, and costs the
// store nothing.
func TestNoPlaceIsKnownWithoutTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newRemote()
		l := newLimiter(t, core.Config{
			Store: store, MaxWaiting: 8,
			Limits: []core.Limit{core.PerSecond(1).LeakyBucket(time.Hour).By(keyfuncs.User("id"))},
		})
		defer waitingFor(t, l, 5, "user:mallory")() // one goes on at once
		before := store.calls()
		for range 100 {
			d := l.AllowKey(t.Context(), "user:mallory", 1)
			if d.Allowed || d.Reason != core.ReasonLimitExceeded || d.RetryAfter != 4*time.Second || d.Status() != 429 {
				t.Fatalf("%v with status %d, retry after %v; want it denied for 4s", d.Reason, d.Status(), d.RetryAfter)
			}
		}
		check.Equal(t, "calls for 100 requests without a place", store.calls()-before, 0)
		wantHeadersOfNoPlace(t, l)
		wantAllowed(t, "another user", l.AllowKey(t.Context(), "user:alice", 1))
		time.Sleep(4 * time.Second)
		wantAllowed(t, "after exactly RetryAfter", l.AllowKey(t.Context(), "user:mallory", 1))
	})
}

func wantHeadersOfNoPlace(t *testing.T, l *core.Limiter) {
	t.Helper()
	d := l.AllowKey(t.Context(), "user:mallory", 1)
	wantHeaders(t, &d, `"default";q=1;w=1`, `"default";r=0;t=4`, "4")
}

// Trap: streams that are opened and reset while they wait, each for two calls to the
// store, of which none is cached.
func TestResetsWhileWaitingCostTheStoreLittle(t *testing.T) {
	t.Parallel()
	const resets = 1000
	for atOnce, most := range map[int]int64{1: 2 + 3*2, 20: 1 + 3*2*20} { // within three seconds
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			l := limiterOn(t, store, core.PerSecond(1).LeakyBucket(time.Minute).By(keyfuncs.User("id")))
			l.AllowKey(t.Context(), "user:mallory", 1)
			for range resets / atOnce {
				hangUp := waitingFor(t, l, atOnce, "user:mallory")
				time.Sleep(2 * time.Second * time.Duration(atOnce) / resets)
				hangUp()
				synctest.Wait()
			}
			time.Sleep(time.Second)
			synctest.Wait() // the places that nobody took over are given back in this instant
			if n := store.calls(); n > most {
				t.Errorf("%d resets, %d at a time, cost %d calls in 3 seconds, want %d at most", resets, atOnce, n, most)
			} else {
				t.Logf("%d resets, %d at a time: %d calls", resets, atOnce, n)
			}
			// And it locks out no client: the user has the next turn.
			if d := l.AllowKey(t.Context(), "user:mallory", 1); !d.Allowed || d.Delay() > time.Second {
				t.Errorf("afterwards: %v after %v", d.Reason, d.Delay())
			}
		})
	}
}

// Whoever shares the key with a client that has gone gets its turn, which is charged
// already, and one charge admits one request.
func TestAVacantPlaceIsTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newRemote()
		l := limiterOn(t, store, forAll(core.PerSecond(1).LeakyBucket(10*time.Second)))
		l.AllowKey(t.Context(), "k", 1)
		hangUp := waitingFor(t, l, 10, "k") // the line is full
		if d := l.AllowKey(t.Context(), "k", 1); d.Allowed {
			t.Fatal("there was a place left")
		}
		hangUp()
		synctest.Wait()
		before := store.calls()
		turns, denied := together(l, 12)
		check.Equal(t, "took over, and were denied", [2]int{len(turns), denied}, [2]int{10, 2})
		for i, at := range turns {
			check.Equal(t, fmt.Sprintf("the turn of number %d came after", i), at, time.Duration(i+1)*time.Second)
		}
		if n := store.calls() - before; n > 2 {
			t.Errorf("they cost %d calls, want one for each that was denied", n)
		}
	})
}

// A place that is not taken over is given back, and another process's request has its turn.
func TestAVacantPlaceIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"a queue":   core.PerSecond(1).LeakyBucket(10 * time.Second),
		"slowed":    core.Per(10, 24*time.Hour).FixedWindow().SlowDown(0.05, 10*time.Second),
		"and slots": core.PerSecond(1).LeakyBucket(10 * time.Second),
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			limits := []core.Limit{forAll(limit)}
			kept := int64(0)
			if name == "and slots" { // which belong to the request that took them: given back at once
				limits = append(limits, forAll(core.Concurrent(50)).Named("running"))
				kept = 5
			}
			l := limiterOn(t, store, limits...)
			d := l.AllowKey(t.Context(), "k", 1)
			d.Settle(core.Outcome{})
			hangUp := waitingFor(t, l, 5, "k")
			before := store.refunds.Load()
			hangUp()
			synctest.Wait()
			check.Equal(t, name+": given back at once", store.refunds.Load()-before, kept)
			time.Sleep(time.Second)
			synctest.Wait()
			check.Equal(t, name+": given back after a second", store.refunds.Load()-before, 5)
		})
	}
}

// At shutdown nothing is kept back.
func TestDrainGivesVacantPlacesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newRemote()
		l := limiterOn(t, store, forAll(core.PerSecond(1).LeakyBucket(10*time.Second)))
		waitingFor(t, l, 6, "k")()
		synctest.Wait()
		check.OK(t, l.Drain(t.Context()))
		check.Equal(t, "given back", store.refunds.Load(), 5)
	})
}

// Another request than the one that has gone gets no place that was charged for it.
func TestAVacantPlaceIsForTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newRemote()
		l := limiterOn(t, store, core.PerSecond(1).LeakyBucket(time.Minute).By(keyfuncs.User("id")))
		l.AllowKey(t.Context(), "user:a", 1)
		l.AllowKey(t.Context(), "user:b", 1)
		waitingFor(t, l, 1, "user:a")()
		synctest.Wait()
		for _, tt := range []struct {
			key   string
			takes int64
		}{{"user:b", 1}, {"user:a", 0}} {
			before := store.takes.Load()
			go l.AllowKey(t.Context(), tt.key, 1)
			synctest.Wait()
			check.Equal(t, tt.key+": charges", store.takes.Load()-before, tt.takes)
		}
		time.Sleep(time.Second)
	})
}

// Trap: each of a client's waiting requests asks again and again for a slot.
func TestACrowdThatWaitsForASlotCostsNoMoreThanAFew(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{1, 10, 100, 400} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			l := limiterOn(t, store, forAll(core.Concurrent(1)).Wait(time.Minute))
			held := l.AllowKey(t.Context(), "k", 1)
			defer waitingFor(t, l, waiting, "k")()
			time.Sleep(20 * time.Second) // all have come to their pace
			before := store.takes.Load()
			time.Sleep(10 * time.Second)
			if n := store.takes.Load() - before; n > 10*42 {
				t.Errorf("%d waiting requests ask %d times in 10 seconds, want 40 a second at most", waiting, n)
			}
			// And a free slot is soon taken.
			held.Settle(core.Outcome{})
			time.Sleep(300 * time.Millisecond)
			if d, err := l.Peek(t.Context(), "k", 1); err != nil || d.Results()[0].Remaining != 0 {
				t.Errorf("of %d waiting requests none took the free slot, error %v", waiting, err)
			}
		})
	}
}

// Many that wait for slots of one key leave none unused.
func TestSlotsThatComeBackAreTakenAtOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{50, 400} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			l := limiterOn(t, store, forAll(core.Concurrent(10).Wait(5*time.Second)))
			start := time.Now()
			atOnce(n, func(int) {
				d := l.AllowKey(t.Context(), "k", 1)
				if !d.Allowed {
					t.Errorf("denied after %v: %v", time.Since(start), d.Reason)
					return
				}
				time.Sleep(10 * time.Millisecond)
				d.Settle(core.Outcome{})
			})
			if took, want := time.Since(start), time.Duration(n)*time.Millisecond; took > want*3/2 {
				t.Errorf("%d requests of 10 ms, 10 at a time, took %v, want %v", n, took, want)
			}
			if calls := store.calls(); calls > int64(5*n) {
				t.Errorf("%d requests made %d calls to the store", n, calls)
			}
		})
	}
}
