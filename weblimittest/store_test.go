package weblimittest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

func perUser(l core.Limit) core.Limit { return l.By(keyfuncs.User("user")) }

func limiterOn(store core.Store, limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(core.Config{Store: store, Limits: limits}))
}

// Whatever the algorithm, a client of an exhausted limit is denied, and passes after Retry-After.
func TestExhaustWithEachAlgorithm(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"token bucket":          core.PerMinute(60),
		"a rate in no ticks":    core.Per(7, time.Minute),
		"burst":                 core.PerSecond(1).Burst(1000),
		"fixed window":          core.PerMinute(60).FixedWindow(),
		"fixed window, jitter":  core.PerHour(60).FixedWindow().Jitter(),
		"sliding window":        core.PerMinute(60).SlidingWindow(),
		"sliding log":           core.PerMinute(60).SlidingLog(),
		"month":                 core.PerMonth(100, time.UTC),
		"cost":                  core.PerMinute(60).Cost(7),
		"operations":            core.PerMinute(60).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour),
		"penalty":               core.PerMinute(60).Penalty(core.Block{After: 2, Within: time.Minute, For: time.Hour}),
		"a part is reserved":    core.PerMinute(60).KeepFree(0.5, keyfuncs.Methods("DELETE")),
		"more than once a tick": core.PerSecond(3_000_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := weblimittest.New(t)
			l := limiterOn(store, perUser(limit).Named("x"))
			alice, bob := keyfuncs.Values{"user": "alice", "Idempotency-Key": "1"}, keyfuncs.Values{"user": "bob"}
			weblimittest.Allowed(t, l.Allow(alice))
			store.Exhaust("x", "user:alice")
			denied := l.Allow(keyfuncs.Values{"user": "alice", "Idempotency-Key": "2"})
			weblimittest.Denied(t, denied, "x")
			weblimittest.Allowed(t, l.Allow(bob))
			store.Advance(weblimittest.RetryAfter(t, denied))
			weblimittest.Allowed(t, l.Allow(alice))
		})
	}
}

// The queue of an exhausted limit is full, too.
func TestExhaustedQueues(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"a pace":        core.PerMinute(2).LeakyBucket(time.Minute),
		"a fast pace":   core.PerSecond(1_000_000).LeakyBucket(time.Hour),
		"a slow pace":   core.PerHour(7).LeakyBucket(time.Minute),
		"a bucket":      core.PerMinute(60).Burst(7).Wait(10 * time.Second),
		"an odd bucket": core.Per(7, 11*time.Second).Burst(3).Wait(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := weblimittest.New(t)
				l := limiterOn(store, perUser(limit).Named("x"))
				alice := keyfuncs.Values{"user": "alice"}
				weblimittest.Allowed(t, l.Allow(alice))
				store.Exhaust("x")
				denied := l.Allow(alice)
				weblimittest.Denied(t, denied, "x")
				store.Advance(weblimittest.RetryAfter(t, denied))
				weblimittest.Allowed(t, l.Allow(alice))
			})
		})
	}
}

// Slots of other requests are held until their leases end.
func TestExhaustedSlots(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	l := limiterOn(store, perUser(core.Concurrent(2).Lease(time.Minute)).Named("slots"))
	store.Exhaust("slots")
	weblimittest.Denied(t, l.Allow(keyfuncs.Values{"user": "alice"}), "slots")
	store.Advance(time.Minute)
	weblimittest.Allowed(t, l.Allow(keyfuncs.Values{"user": "alice"}))
}

// A limit is exhausted when the test says so, though the store learns of the client later, and by
// the numbers of the client's tier.
func TestExhaustIsAsOfItsCall(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	l := limiterOn(store, perUser(core.PerMinute(60)).Named("plan").Tiers(func(r keyfuncs.Request) core.Limit {
		if user, _ := r.Value("user").(string); user == "premium" {
			return core.PerMinute(6000)
		}
		return core.Limit{}
	}))
	store.Exhaust("plan")
	store.Advance(30 * time.Second)
	weblimittest.Remaining(t, l.Allow(keyfuncs.Values{"user": "free"}), "plan", 29)
	weblimittest.Remaining(t, l.Allow(keyfuncs.Values{"user": "premium"}), "plan", 2999)
	store.Advance(time.Hour)
	weblimittest.Remaining(t, l.Allow(keyfuncs.Values{"user": "premium"}), "plan", 5999) // once
}

func TestExhaustTwice(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	l := limiterOn(store, perUser(core.PerMinute(60)).Named("x"))
	alice := keyfuncs.Values{"user": "alice"}
	store.Exhaust("x")
	weblimittest.Denied(t, l.Allow(alice))
	store.Advance(time.Minute)
	weblimittest.Allowed(t, l.Allow(alice))
	store.Exhaust("x")
	weblimittest.Denied(t, l.Allow(alice))
	must.OK(t, l.Reset(t.Context(), "user:alice"))
	weblimittest.Allowed(t, l.Allow(alice))
}

func TestBlockForIsABlockOfTheStore(t *testing.T) {
	t.Parallel()
	s := weblimittest.New(t)
	l := limiterOn(s, perUser(core.PerMinute(60)).Named("x").Penalty(core.Block{After: 2, Within: time.Minute, For: time.Hour}))
	s.BlockFor("x", 10*time.Minute, "user:alice")
	s.Advance(time.Minute)
	var blocks []store.Blocked
	for b, err := range l.Blocks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, b)
	}
	if len(blocks) != 1 || blocks[0].Key != "user:alice" || blocks[0].Until.Sub(s.Now()) != 9*time.Minute {
		t.Errorf("blocks: %+v", blocks)
	}
	d := l.Allow(keyfuncs.Values{"user": "alice"})
	weblimittest.Denied(t, d, "x")
	check.All(t, "decided", []any{d.Reason, d.RetryAfter}, core.ReasonBlocked, 9*time.Minute)
	must.OK(t, l.Unblock(t.Context(), "user:alice"))
	weblimittest.Allowed(t, l.Allow(keyfuncs.Values{"user": "alice"}))
}

func TestMisuseEndsTheTest(t *testing.T) {
	t.Parallel()
	for want, misuse := range map[string]func(*weblimittest.Store){
		`weblimittest: Exhaust("x"): no limit uses this store yet: make the application first`: func(s *weblimittest.Store) {
			s.Exhaust("x")
		},
		`weblimittest: Exhaust("logn", "ip:192.0.2.1"): no such limit on this store, which has "login", "reads"`: func(s *weblimittest.Store) {
			limiterOn(s, perUser(core.PerMinute(1)).Named("reads"), perUser(core.PerMinute(1)).Named("login"))
			s.Exhaust("logn", "ip:192.0.2.1")
		},
		`weblimittest: BlockFor("login", 0s): a block must last`: func(s *weblimittest.Store) { s.BlockFor("login", 0) },
		`weblimittest: Advance(-1s): the clock can't go back`:    func(s *weblimittest.Store) { s.Advance(-time.Second) },
	} {
		failures, _ := record(t, func(t testing.TB) { misuse(weblimittest.New(t)) })
		check.Equal(t, "failures", failures, want)
	}
}

// A test that failed learns that it named a client who never came.
func TestAFailedTestLearnsOfKeysThatNobodyHad(t *testing.T) {
	t.Parallel()
	exhaust := func(fails bool) string {
		_, logs := record(t, func(t testing.TB) {
			store := weblimittest.New(t)
			l := limiterOn(store, perUser(core.PerMinute(9)).Named("x"), perUser(core.PerMinute(9)).Named("y").When(keyfuncs.Methods("PUT")))
			store.Exhaust("x", "alice")
			store.Exhaust("y")
			d := l.Allow(keyfuncs.Values{"user": "alice"})
			if fails {
				weblimittest.Denied(t, d)
			}
		})
		return logs
	}
	hashed := string(keyfuncs.AppendKey(nil, "alice"))
	want := `weblimittest: Exhaust("x", "alice"): no request with the key "` + hashed + `" came; the limit has counted by "user:alice"
weblimittest: Exhaust("y"): no request came; no request was counted by the limit`
	check.Equal(t, "logs", exhaust(true), want)
	check.Equal(t, "logs of a test that passed", exhaust(false), "")
}

func TestKeysShowWhoWasCounted(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	l := limiterOn(store, perUser(core.PerMinute(9)).Named("x"), perUser(core.PerMinute(9)).Named("y"))
	store.Exhaust("x", "user:nobody")
	for _, user := range []string{"bob", "alice", "bob"} {
		l.Allow(keyfuncs.Values{"user": user})
	}
	check.Slices(t, "keys", store.Keys(), []string{"user:alice", "user:bob"})
}

func TestTheClockBeginsInAWindow(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	if want := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); !store.Now().Equal(want) {
		t.Errorf("the clock begins at %v, want %v", store.Now(), want)
	}
	store.Advance(time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC).Sub(store.Now()))
	l := limiterOn(store, perUser(core.PerMonth(1, time.UTC)).Named("month"))
	l.Allow(keyfuncs.Values{"user": "alice"})
	denied := l.Allow(keyfuncs.Values{"user": "alice"})
	weblimittest.Denied(t, denied, "month")
	check.Equal(t, "a client waits, an hour before the end of a month", weblimittest.RetryAfter(t, denied), time.Hour)
}

// Every method fails while the store is away, and none does afterwards.
func TestAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	rule := must.Get(core.PerMinute(9).Penalty(core.Block{After: 2, Within: time.Minute, For: time.Hour}).Named("x").Rule())(t)
	checks, results := []core.Check{{Key: []byte("k"), Rule: &rule, Cost: 1}}, make([]core.Result, 1)
	methods := map[string]func(context.Context) error{
		"Take":    func(ctx context.Context) error { return store.Take(ctx, checks, results) },
		"Peek":    func(ctx context.Context) error { return store.Peek(ctx, checks, make([]core.Result, 1)) },
		"Charge":  func(ctx context.Context) error { return store.Charge(ctx, checks, make([]core.Result, 1)) },
		"Refund":  func(ctx context.Context) error { return store.Refund(ctx, checks, results) },
		"Renew":   func(ctx context.Context) error { return store.Renew(ctx, checks, results) },
		"Reset":   func(ctx context.Context) error { return store.Reset(ctx, checks) },
		"Block":   func(ctx context.Context) error { return store.Block(ctx, checks, time.Minute) },
		"Unblock": func(ctx context.Context) error { return store.Unblock(ctx, checks) },
		"Blocks": func(ctx context.Context) error {
			for _, err := range store.Blocks(ctx, []*core.Rule{&rule}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, method := range methods {
		store.Fail()
		check.Fails(t, name+" of a store that fails", method(t.Context()), "Fail was called")
		store.Hang()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		check.Is(t, name+" of a store that hangs", method(ended), context.Canceled)
		store.Recover()
		if err := method(t.Context()); err != nil {
			t.Errorf("%s of a store that is back: %v", name, err)
		}
	}
}

// A call that hangs goes on when the store is back, as one does whose server was stopped.
func TestACallThatHangsGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := weblimittest.New(t)
		l := core.Must(core.New(core.Config{
			Store: store, Limits: []core.Limit{perUser(core.PerMinute(9)).Named("x")}, Timeout: time.Minute,
		}))
		store.Hang()
		var decided sync.WaitGroup
		decided.Go(func() {
			began := time.Now()
			d := l.Allow(keyfuncs.Values{"user": "alice"})
			check.All(t, "decided after", []any{d.Reason, time.Since(began)}, core.ReasonWithinLimit, 20*time.Second)
		})
		store.Advance(20 * time.Second)
		store.Recover()
		decided.Wait()
	})
}
