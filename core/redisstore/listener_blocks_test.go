package redisstore_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// A blocked key is denied without asking Redis, by a process that hears when its block is lifted;
// denials that count towards a block are not repeated.
func TestABlockIsRepeatedUntilItIsLifted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rule := mustRule(t, core.PerHour(100).Named("api").Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
	a, b := redisstore.New(server.Client(t)), redisstore.New(server.Client(t), caching(""))
	listening(t, b)
	calls := func(f func()) int64 {
		before := server.Calls(t, "evalsha")
		f()
		return server.Calls(t, "evalsha") - before
	}
	deny := func(n int) {
		t.Helper()
		for range n {
			if r := take(t, b, checkOf("k", rule, 1))[0]; r.Allowed {
				t.Fatalf("got %+v, want a denial", r)
			}
		}
	}
	take(t, b, checkOf("k", rule, 100))
	check.Equal(t, "calls that three denials that count cost", calls(func() { deny(3) }), 3)
	check.Equal(t, "calls that a thousand denials of a blocked key cost", calls(func() { deny(1000) }), 0)
	if r := take(t, b, checkOf("k", rule, 1))[0]; !r.Blocked || !r.Cached || r.RetryAfter <= 59*time.Minute || r.RetryAfter > time.Hour {
		t.Errorf("got %+v, want the block", r)
	}
	for name, lift := range map[string]func() error{
		"unblock": func() error { return a.Unblock(t.Context(), []core.Check{checkOf("k", rule, 0)}) },
		"reset":   func() error { return a.Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}) },
		"a shorter block": func() error {
			return a.Block(t.Context(), []core.Check{checkOf("k", rule, 0)}, time.Millisecond)
		},
	} {
		must.OK(t, lift())
		wait.Until(t, name+" to be seen", func() bool { return !take(t, b, checkOf("k", rule, 1))[0].Blocked })
		must.OK(t, a.Block(t.Context(), []core.Check{checkOf("k", rule, 0)}, time.Hour))
		deny(2)
	}
}

// The process that lifts or shortens a block does not wait for its own message: here there is none,
// since Redis has lost the notice.
func TestABlockEndsAtOnceInTheProcessThatLiftsIt(t *testing.T) {
	t.Parallel()
	block := core.Block{After: 3, Within: time.Hour, For: time.Hour}
	for name, limit := range map[string]core.Limit{
		"rate": core.PerHour(100).Penalty(block), "slots": core.Concurrent(100).Penalty(block),
		"rate without a penalty": core.PerHour(100), "slots without a penalty": core.Concurrent(100),
	} {
		client := redistest.Start(t).Client(t)
		rule := mustRule(t, limit)
		s := redisstore.New(client, caching(""))
		listening(t, s)
		checks := []core.Check{checkOf("k", rule, 0)}
		// A request that only slots deny is never repeated, so another limit denies it, too.
		both := []core.Check{checkOf("k", rule, 1), checkOf("k", mustRule(t, core.PerHour(1).Named("full")), 2)}
		for lift, lifted := range map[string]func() error{
			"unblock": func() error { return s.Unblock(t.Context(), checks) },
			"reset":   func() error { return s.Reset(t.Context(), checks) },
			"block":   func() error { return s.Block(t.Context(), checks, time.Millisecond) },
		} {
			must.OK(t, s.Block(t.Context(), checks, time.Hour))
			take(t, s, both...)
			if r := take(t, s, both...)[0]; !r.Blocked || !r.Cached {
				t.Fatalf("%s, %s: got %+v, want the block from the cache", name, lift, r)
			}
			must.OK(t, client.Del(t.Context(), "weblimit:{k}").Err())
			must.OK(t, lifted())
			if r := take(t, s, both...)[0]; r.Cached {
				t.Errorf("%s, %s: got %+v, want Redis asked", name, lift, r)
			}
		}
	}
}

// With another penalty that counts the request's denials, Redis has to see each of them.
func TestABlockIsNotRepeatedBesideAPenaltyThatCounts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	block := core.Block{After: 100, Within: time.Hour, For: time.Hour}
	api := mustRule(t, core.PerHour(100).Named("api").Penalty(block))
	for name, beside := range map[string]core.Check{
		"another limit":       checkOf("k", mustRule(t, core.PerHour(1).Named("write").Penalty(block)), 1),
		"one in shadow mode":  {Key: []byte("k"), Rule: mustRule(t, core.PerHour(1).Named("write").Penalty(block)), Cost: 1, Shadow: true},
		"a limit of an other": checkOf("l", mustRule(t, core.PerHour(1).Named("write").Penalty(block)), 1),
	} {
		prefix := redistest.Prefix(t)
		b := redisstore.New(server.Client(t), caching(prefix))
		listening(t, b)
		must.OK(t, b.Block(t.Context(), []core.Check{checkOf("k", api, 0)}, time.Hour))
		for range 3 {
			if r := take(t, b, checkOf("k", api, 1), beside)[0]; !r.Blocked || r.Cached {
				t.Errorf("beside %s: got %+v, want the block from Redis", name, r)
			}
		}
	}
}

// A process that does not hear whether a block is lifted asks each time.
func TestABlockIsNotRepeatedByAProcessThatHearsNothing(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"a penalty":    core.PerHour(100).Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}),
		"by hand only": core.PerHour(100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blockIsNotRepeated(t, mustRule(t, limit))
		})
	}
}

func blockIsNotRepeated(t *testing.T, rule *core.Rule) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server)
	a, b := redisstore.New(server.Client(t)), redisstore.New(proxy.Client(t), caching(""))
	b.SetListenTimes(forever, forever, forever, forever) // which does not connect again
	listening(t, b)
	checks := []core.Check{checkOf("k", rule, 0)}
	must.OK(t, a.Block(t.Context(), checks, time.Hour))
	take(t, b, checkOf("k", rule, 1))
	if r := take(t, b, checkOf("k", rule, 1))[0]; !r.Cached {
		t.Fatalf("got %+v, want it cached", r)
	}
	proxy.Refuse(true)
	wait.Until(t, "the loss is noticed", func() bool { return !b.Hears() })
	proxy.Refuse(false)
	must.OK(t, a.Unblock(t.Context(), checks))
	var r core.Result
	wait.For(t, "Redis is asked again", func() (err error) {
		r, err = takeOne(t, b, checkOf("k", rule, 1))
		return err
	})
	if r.Blocked {
		t.Errorf("got %+v after the block was lifted", r)
	}
}

// An operator's block under a limit without a penalty is repeated without asking, lifted everywhere, and
// ends what others have taken ahead.
func TestABlockByHandReachesAllProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rule := mustRule(t, core.Per(1_000_000, hammerWindow).FixedWindow().Named("api"))
	a, b := redisstore.New(server.Client(t)), redisstore.New(server.Client(t), caching(""))
	listening(t, b)
	checks := []core.Check{checkOf("k", rule, 1)}
	for range 2 {
		must.OK(t, a.Block(t.Context(), checks, time.Hour))
		wait.Until(t, "the block", func() bool { return take(t, b, checks...)[0].Blocked })
		before := server.Calls(t, "evalsha")
		for range 1000 {
			if r := take(t, b, checks...)[0]; !r.Blocked {
				t.Fatalf("got %+v, want the block", r)
			}
		}
		if calls := server.Calls(t, "evalsha") - before; calls > 500 { // a second is the age of a denial
			t.Errorf("a thousand denials of a blocked key cost %d calls", calls)
		}
		must.OK(t, a.Unblock(t.Context(), checks))
		wait.Until(t, "the end of the block", func() bool { return take(t, b, checks...)[0].Allowed })
	}
	ahead := redisstore.New(server.Client(t), leasing("", time.Minute))
	heat(t, ahead, checkOf("k", rule, 1))
	wait.Until(t, "the block of a key whose units are held", func() bool {
		must.OK(t, ahead.Block(t.Context(), checks, time.Hour))
		return take(t, ahead, checks...)[0].Blocked
	})
}
