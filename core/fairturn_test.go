package core_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/keyfuncs"
)

// fairly has clients divide a limit, by weights that grow with the length of their names.
func fairly(l core.Limit) core.Limit {
	return forAll(l).Fair(core.Shares{By: keyfuncs.User("client"), Within: keyfuncs.User("user"), Of: func(r keyfuncs.Request) core.Share {
		name, _ := r.Value("client").(string)
		return core.Share{Weight: int64(len(name))}
	}})
}

// lineup is requests that come one after the other, and what became of them.
type lineup struct {
	limiter *core.Limiter
	holds   time.Duration // how long each holds its slots
	start   time.Time
	group   sync.WaitGroup
	mu      sync.Mutex
	served  []string
	denied  []string
	at      map[string]time.Duration // when it was decided
	took    time.Duration            // all together
}

func newLineup(l *core.Limiter, holds time.Duration) *lineup {
	return &lineup{limiter: l, holds: holds, start: time.Now(), at: map[string]time.Duration{}}
}

// come has a request of a client, or client/user, come. name is what it is called in the results.
func (u *lineup) come(ctx context.Context, name, who, method string) {
	client, user, _ := strings.Cut(who, "/")
	u.group.Go(func() {
		d := u.limiter.Allow(&request{ctx: ctx, method: method, values: map[any]any{"client": client, "user": user}})
		u.mu.Lock()
		u.at[name] = time.Since(u.start)
		if d.Allowed {
			u.served = append(u.served, name)
		} else {
			u.denied = append(u.denied, fmt.Sprint(name, ":", d.Reason))
		}
		u.mu.Unlock()
		if d.Allowed {
			time.Sleep(u.holds)
		}
		d.Settle(core.Outcome{})
	})
	synctest.Wait()
}

// end waits for all, and returns who was served and who was denied.
func (u *lineup) end(t *testing.T) (served, denied string) {
	t.Helper()
	u.group.Wait()
	u.took = time.Since(u.start)
	time.Sleep(time.Second) // slots are given back
	synctest.Wait()
	check.All(t, "who waits when all have ended, and for what", []any{u.limiter.Stats().Waiting, u.limiter.Lines()}, int64(0), 0)
	return strings.Join(u.served, " "), strings.Join(u.denied, ", ")
}

func TestSlotsGoRoundByShare(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u := newLineup(limiterOn(t, core.NewMemory(), fairly(core.Concurrent(1).Wait(time.Minute))), 100*time.Millisecond)
		for i := range 6 {
			u.come(t.Context(), fmt.Sprint("m", i), "m", "")
		}
		u.come(t.Context(), "a0", "a", "")
		for i := range 4 {
			u.come(t.Context(), fmt.Sprint("bb", i), "bb", "")
		}
		served, denied := u.end(t)
		check.All(t, "served and denied", []any{served, denied}, "m0 m1 a0 bb0 bb1 m2 bb2 bb3 m3 m4 m5", "")
		check.Equal(t, "no slot was idle until", u.at["m5"], time.Second)
	})
}

func TestUsersOfAClientTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u := newLineup(limiterOn(t, core.NewMemory(), fairly(core.Concurrent(1).Wait(time.Minute))), 100*time.Millisecond)
		for i := range 4 {
			u.come(t.Context(), fmt.Sprint("x", i), "a/x", "")
		}
		u.come(t.Context(), "y", "a/y", "")
		for i := range 2 {
			u.come(t.Context(), fmt.Sprint("b", i), "b", "")
		}
		served, _ := u.end(t)
		check.Equal(t, "served", served, "x0 x1 b0 y b1 x2 x3")
	})
}

func TestHigherClassesWaitInFront(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		u := newLineup(limiterOn(t, core.NewMemory(), threeClasses(fairly(core.Concurrent(10).Cost(5).Wait(time.Minute)))), 100*time.Millisecond)
		u.come(t.Context(), "first", "a", "POST")
		u.come(t.Context(), "second", "a", "POST")
		for i := range 2 {
			u.come(t.Context(), fmt.Sprint("low", i), "a", "GET")
			u.come(t.Context(), fmt.Sprint("high", i), "b", "POST")
		}
		_, denied := u.end(t)
		check.All(t, "denied", []any{denied}, "")
		check.All(t, "the higher class, and then the lower one", []any{u.at["high0"], u.at["high1"], min(u.at["low0"], u.at["low1"]), max(u.at["low0"], u.at["low1"])}, 100*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond)
	})
}

func TestABucketIsWaitedForByShare(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newRemote()
		u := newLineup(limiterOn(t, store, fairly(core.PerSecond(10).Wait(time.Minute))), 0)
		for i := range 30 {
			u.come(t.Context(), fmt.Sprint("m", i), "m", "")
		}
		for i := range 3 {
			u.come(t.Context(), fmt.Sprint("a", i), "a", "")
		}
		served, denied := u.end(t)
		check.All(t, "served, and denied", []any{len(strings.Fields(served)), denied}, 33, "")
		for i := range 3 {
			check.Equal(t, fmt.Sprint("whoever is within its share gets the next unit, request ", i), u.at[fmt.Sprint("a", i)].Round(time.Millisecond), time.Duration(i)*100*time.Millisecond)
		}
		if last := u.at["m29"]; last < 2300*time.Millisecond || last > 2800*time.Millisecond { // half of the burst stays for others
			t.Errorf("the last was served after %v", last)
		}
		if n := store.takes.Load(); n > 3*33 {
			t.Errorf("33 requests asked %d times", n)
		}
	})
}

// A client that hangs up gives up its place at once, and takes none of those behind it.
func TestWhoLeavesAFairLineGivesUpItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLimiter(t, core.Config{Store: core.NewMemory(), MaxWaiting: 2, MaxWaitingPerKey: 2, Limits: []core.Limit{fairly(core.Concurrent(1).Wait(time.Minute))}})
		u := newLineup(l, time.Second)
		u.come(t.Context(), "first", "a", "")
		ctx, hangUp := context.WithCancel(t.Context())
		u.come(ctx, "b0", "b", "")
		u.come(ctx, "c0", "c", "")
		u.come(t.Context(), "d0", "d", "")
		hangUp()
		synctest.Wait()
		check.Equal(t, "waiting", l.Stats().Waiting, 0)
		u.come(t.Context(), "d1", "d", "")
		served, denied := u.end(t)
		check.Equal(t, "served", served, "first d1")
		check.All(t, "denied", []any{strings.Contains(denied, "b0:canceled"), strings.Contains(denied, "c0:canceled"), strings.HasPrefix(denied, "d0:limit exceeded,")}, true, true, true)
		check.All(t, "when", []any{u.at["d0"], u.at["b0"], u.at["d1"]}, time.Duration(0), time.Duration(0), time.Second)
	})
}

// Trap: one client fills the line, and others are turned away.
func TestNobodyFillsAFairLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLimiter(t, core.Config{Store: core.NewMemory(), MaxWaiting: 8, Limits: []core.Limit{fairly(core.Concurrent(1).Wait(time.Minute))}})
		u := newLineup(l, time.Second)
		for i := range 20 { // the key gets half of the places
			u.come(t.Context(), fmt.Sprint("m", i), "m", "")
		}
		u.come(t.Context(), "a0", "a", "")
		u.come(t.Context(), "a1", "a", "")
		u.come(t.Context(), "a2", "a", "")
		check.Equal(t, "waiting", l.Stats().Waiting, 4)
		u.mu.Lock()
		check.All(t, "denied at once", []any{u.at["m4"], u.at["m3"], u.at["a2"]}, time.Duration(0), time.Duration(0), time.Duration(0))
		u.mu.Unlock()
		served, denied := u.end(t)
		check.All(t, "served, and how many were denied", []any{served, len(strings.Fields(denied)) > 0}, "m0 m1 a0 m2 a1", true)
	})
}

func TestTheWaitInAFairLineEnds(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{"slots": core.Concurrent(1).Wait(1500 * time.Millisecond), "a bucket": core.PerMinute(1).Wait(time.Second)} {
		synctest.Test(t, func(t *testing.T) {
			l := limiterOn(t, core.NewMemory(), fairly(limit))
			u := newLineup(l, time.Second)
			for i := range 4 {
				u.come(t.Context(), fmt.Sprint("m", i), "m", "")
			}
			served, denied := u.end(t)
			want := "m0 m1"
			if name == "a bucket" {
				want = "m0"
			}
			check.Equal(t, name+": served", served, want)
			check.Equal(t, name+": denied", len(strings.Fields(denied)) > 0, true)
			for who, at := range u.at {
				if at > 1500*time.Millisecond {
					t.Errorf("%s: %s was decided after %v", name, who, at)
				}
			}
		})
	}
}

// Trap: each of a crowd asks the store again and again.
func TestACrowdInAFairLineAsksSeldom(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{1, 10, 400} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			limit := fairly(core.Concurrent(1).Wait(time.Minute)).Named("slots")
			l, elsewhere := limiterOn(t, store, limit), limiterOn(t, store, limit)
			held := elsewhere.AllowKey(t.Context(), "k", 1)
			ctx, hangUp := context.WithCancel(t.Context())
			u := newLineup(l, time.Minute)
			for i := range waiting {
				u.come(ctx, fmt.Sprint(i), fmt.Sprint("c", i%7), "")
			}
			time.Sleep(10 * time.Second)
			before := store.takes.Load()
			time.Sleep(10 * time.Second)
			if n := store.takes.Load() - before; n > 10*42 {
				t.Errorf("%d waiting requests ask %d times in 10 seconds, want 40 a second at most", waiting, n)
			}
			held.Settle(core.Outcome{}) // of another process
			time.Sleep(300 * time.Millisecond)
			u.mu.Lock()
			check.Equal(t, fmt.Sprint(waiting, ": served"), len(u.served), 1)
			u.mu.Unlock()
			hangUp()
			u.end(t)
		})
	}
}

func TestSlotsOfAFairLineAreTakenAtOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{50, 400} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			u := newLineup(limiterOn(t, store, fairly(core.Concurrent(10).Wait(5*time.Second))), 10*time.Millisecond)
			for i := range n {
				u.come(t.Context(), fmt.Sprint(i), fmt.Sprint("c", i%7), "")
			}
			_, denied := u.end(t)
			check.Equal(t, "denied", denied, "")
			if took, want := u.took, time.Duration(n)*time.Millisecond; took > want*3/2 {
				t.Errorf("%d requests of 10 ms, 10 at a time, took %v, want %v", n, took, want)
			}
			if calls := store.calls(); calls > int64(5*n) {
				t.Errorf("%d requests made %d calls to the store", n, calls)
			}
		})
	}
}

// Trap: requests ask a distant store one after the other, and most of the limit stays unused.
func TestADistantStoreIsAskedForSeveral(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"slots":    core.Concurrent(10).Wait(10 * time.Second),
		"a bucket": core.PerSecond(1000).Burst(500).Wait(10 * time.Second),
	} {
		synctest.Test(t, func(t *testing.T) {
			store := intercept(func(_ context.Context, call string, _ []core.Check) error {
				time.Sleep(5 * time.Millisecond)
				return nil
			})
			l := newLimiter(t, core.Config{Store: &store, MaxWaiting: 4000, Limits: []core.Limit{fairly(limit)}})
			u := newLineup(l, 5*time.Millisecond)
			const n = 1500
			for i := range n {
				u.come(t.Context(), fmt.Sprint(i), fmt.Sprint("c", i%7), "")
			}
			_, denied := u.end(t)
			check.Equal(t, name+": denied", denied, "")
			want := time.Second // after what the burst holds
			if name == "slots" {
				want = n / 10 * 15 * time.Millisecond // a request is 5 ms at work, and 5 ms on the way to the store and back
			}
			if took := u.took; took > want*5/4 {
				t.Errorf("%s: %d requests took %v, want %v", name, n, took, want)
			}
		})
	}
}

// Trap: whoever is denied, hangs up and comes again leaves something behind each time.
func TestHangingUpInAFairLineLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newRemote()
		l := newLimiter(t, core.Config{Store: store, Limits: []core.Limit{fairly(core.PerMinute(10).Wait(time.Minute))}})
		u := newLineup(l, 0)
		for i := range 20 {
			u.come(t.Context(), fmt.Sprint("a", i), "a", "")
		}
		ctx, hangUp := context.WithCancel(t.Context())
		for i := range 1000 {
			u.come(ctx, fmt.Sprint("m", i), fmt.Sprint("m", i%3), "")
			if i%4 == 3 {
				hangUp()
				ctx, hangUp = context.WithCancel(t.Context())
			}
		}
		hangUp()
		if n := l.Resting(); n > 200 {
			t.Errorf("%d clients are not asked for", n)
		}
		served, _ := u.end(t)
		if n := strings.Count(served, "a"); n < 14 { // half of the burst stays for others, so that not all come in time
			t.Errorf("%d of 20 requests were served: %s", n, served)
		}
	})
}

// A request that can't go on for another reason keeps its place, and others are not held up.
func TestAnotherLimitHoldsUpNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		perClient := core.PerSecond(1).SlidingLog().By(keyfuncs.User("client")).Named("each").Wait(time.Minute)
		u := newLineup(limiterOn(t, core.NewMemory(), fairly(core.Concurrent(1).Wait(time.Minute)), perClient), 100*time.Millisecond)
		for i := range 3 {
			u.come(t.Context(), fmt.Sprint("m", i), "m", "")
		}
		u.come(t.Context(), "a", "a", "")
		u.come(t.Context(), "b", "b", "")
		served, denied := u.end(t)
		check.All(t, "served and denied", []any{served[:6], len(strings.Fields(served)), denied}, "m0 a b", 5, "")
		check.All(t, "when", []any{u.at["a"], u.at["b"]}, 100*time.Millisecond, 200*time.Millisecond)
	})
}

// Requests come, wait, hang up and are displaced at random, and nothing is left.
func TestAFairLineInDisorder(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"slots":   threeClasses(fairly(core.Concurrent(5).Wait(200 * time.Millisecond))),
		"buckets": fairly(core.PerSecond(200).Burst(100).Wait(200 * time.Millisecond)),
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, core.Config{Store: core.NewMemory(), MaxWaiting: 40, Limits: []core.Limit{limit}})
			var group sync.WaitGroup
			var served, running atomic.Int64
			random := rand.New(rand.NewPCG(1, 2))
			for range 3000 {
				r := &request{method: []string{"POST", "PUT", "GET"}[random.IntN(3)], values: map[any]any{"client": fmt.Sprint("c", random.IntN(9)), "user": fmt.Sprint(random.IntN(3))}}
				patience, holds := time.Duration(random.IntN(300))*time.Millisecond, time.Duration(random.IntN(20))*time.Millisecond
				group.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					r.ctx = ctx
					d := l.Allow(r)
					if d.Allowed {
						served.Add(1)
						if n := running.Add(1); name == "slots" && n > 5 {
							t.Errorf("%d run at once", n)
						}
						time.Sleep(holds)
						running.Add(-1)
					}
					d.Settle(core.Outcome{})
				})
				time.Sleep(time.Duration(random.IntN(4)) * 500 * time.Microsecond)
			}
			group.Wait()
			synctest.Wait()
			check.All(t, name+": left", []any{l.Stats().Waiting, l.Lines()}, int64(0), 0)
			if n := served.Load(); n < 400 {
				t.Errorf("%s: %d of 3000 were served", name, n)
			}
		})
	}
}

// In an outage in which all may go on, nobody waits to the end.
func TestAFairLineInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFlaky(false)
		l := limiterOn(t, store, fairly(core.PerHour(10).Wait(time.Hour)).OnOutage(core.Allow))
		u := newLineup(l, 0)
		for i := range 30 {
			u.come(t.Context(), fmt.Sprint(i), fmt.Sprint("c", i%3), "")
		}
		store.down.Store(true)
		_, denied := u.end(t)
		check.Equal(t, "denied", denied, "")
		if u.took > 30*time.Minute {
			t.Errorf("the last waited for %v", u.took)
		}
	})
}

// The whole way, by share and by arrival: one client with 200 connections, and 50 with one, at 20 slots.
func TestLightClientsDoNotWaitForAHeavyOne(t *testing.T) {
	t.Parallel()
	length := long.Rounds(2*time.Second, 10*time.Second)
	p99 := map[bool]time.Duration{}
	for _, fair := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			limit := forAll(core.Concurrent(20).Wait(10 * time.Second))
			if fair {
				limit = fairly(core.Concurrent(20).Wait(10 * time.Second))
			}
			l := limiterOn(t, core.NewMemory(), limit)
			var mu sync.Mutex
			var waits []time.Duration
			var group sync.WaitGroup
			come := func(client string, pause time.Duration) {
				group.Go(func() {
					random := rand.New(rand.NewPCG(uint64(len(client)), 1))
					for start := time.Now(); time.Since(start) < length; {
						came := time.Now()
						d := l.Allow(&request{values: map[any]any{"client": client, "user": client}})
						if waited := time.Since(came); pause > 0 {
							mu.Lock()
							waits = append(waits, waited)
							mu.Unlock()
						}
						if d.Allowed {
							time.Sleep(10 * time.Millisecond)
						}
						d.Settle(core.Outcome{})
						time.Sleep(time.Duration(random.Int64N(int64(2*pause) + 1)))
					}
				})
			}
			for range 200 {
				come("m00", 0)
			}
			for i := range 50 {
				come(fmt.Sprintf("c%02d", i), 100*time.Millisecond)
			}
			group.Wait()
			time.Sleep(time.Second)
			slices.Sort(waits)
			p99[fair] = waits[len(waits)*99/100]
			t.Logf("by share %v: p99 %v, p50 %v of %d requests of light clients", fair, p99[fair], waits[len(waits)/2], len(waits))
		})
	}
	if 4*p99[true] > p99[false] {
		t.Errorf("p99 of light clients is %v, and %v by arrival", p99[true], p99[false])
	}
}
