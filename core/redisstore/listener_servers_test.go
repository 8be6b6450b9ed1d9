package redisstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// What process A gives back, process B sees within a round trip or so: counted in round trips of
// PING that B makes after A's call has returned, since a loaded machine has no other measure.
func TestWhatIsGivenBackIsSeenWithinARoundTrip(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Cluster and sentinels")
	}
	t.Parallel()
	single, sentinel := redistest.Start(t), redistest.StartSentinel(t)
	for name, connect := range map[string]func() redis.UniversalClient{
		"a server":   func() redis.UniversalClient { return single.Client(t) },
		"a Cluster":  func() redis.UniversalClient { return redistest.SharedCluster(t).Client(t) },
		"a Sentinel": func() redis.UniversalClient { return sentinel.Client(t) },
	} {
		t.Run(name, func(t *testing.T) {
			prefix := redistest.Prefix(t)
			a := redisstore.New(connect(), redisstore.Config{Prefix: prefix})
			client := connect()
			b := redisstore.New(client, redisstore.Config{Prefix: prefix, DenialCache: redisstore.DenialCache{Age: forever}})
			listening(t, b)
			measureGiveBacks(t, a, b, client)
		})
	}
}

func measureGiveBacks(t *testing.T, a, b *redisstore.Store, client redis.UniversalClient) {
	block := core.Block{After: 1, Within: time.Hour, For: time.Hour}
	rule, raised := mustRule(t, core.PerHour(3).Named("l")), mustRule(t, core.PerHour(30000).Named("l"))
	penalized := mustRule(t, core.PerHour(3).Named("p").Penalty(block))
	for name, c := range map[string]struct {
		rule     *core.Rule
		giveBack func(k string, charged []core.Result) error
	}{
		"refund": {rule, func(k string, charged []core.Result) error {
			return a.Refund(t.Context(), []core.Check{checkOf(k, rule, 3)}, charged)
		}},
		"reset": {rule, func(k string, _ []core.Result) error {
			return a.Reset(t.Context(), []core.Check{checkOf(k, rule, 0)})
		}},
		"unblock": {penalized, func(k string, _ []core.Result) error {
			return a.Unblock(t.Context(), []core.Check{checkOf(k, penalized, 0)})
		}},
		"raise": {rule, func(k string, _ []core.Result) error {
			return a.Take(t.Context(), []core.Check{checkOf(k, raised, 1)}, make([]core.Result, 1))
		}},
	} {
		wantWithinARoundTrip(t, name, client, func(n int) (stale func() bool) {
			k := fmt.Sprint(name, n)
			charged := take(t, a, checkOf(k, c.rule, 3))
			take(t, b, checkOf(k, c.rule, 1))
			take(t, b, checkOf(k, c.rule, 1))
			if r := take(t, b, checkOf(k, c.rule, 1))[0]; !r.Cached {
				t.Fatalf("%s: %+v, want it cached", name, r)
			}
			must.OK(t, c.giveBack(k, charged))
			return func() bool { return take(t, b, checkOf(k, c.rule, 1))[0].Cached }
		})
	}
}

// wantWithinARoundTrip makes changes at one store and counts the round trips of PING until another does not
// answer as before. The fastest tenth of the changes has to be seen within some of them: what waits for a timer delays each
// of them by thousands. The others say nothing, since a process that shares its processors may stand still meanwhile, and
// the bus of a Cluster holds messages back for some 40 ms now and then.
func wantWithinARoundTrip(t *testing.T, what string, client redis.UniversalClient, change func(n int) (stale func() bool)) {
	t.Helper()
	times := long.Rounds(15, 100)
	pings := make([]int, times)
	for n := range pings {
		for stale := change(n); stale(); pings[n]++ {
			must.OK(t, client.Ping(t.Context()).Err())
			// Where each answer is there before it is waited for, Go looks at other
			// connections every 10 ms only.
			time.Sleep(time.Microsecond)
			if pings[n] == 10_000 {
				t.Fatalf("%s: not seen after %d round trips", what, pings[n])
			}
		}
	}
	slices.Sort(pings)
	t.Logf("%s: seen after round trips: p10 %d, p50 %d, p99 %d, most %d", what, pings[times/10], pings[times/2], pings[times*99/100-1], pings[times-1])
	if fast := pings[times/10]; fast > 5 {
		t.Errorf("%s: nine of ten changes were seen after more than %d round trips", what, fast-1)
	}
}

// After a failover the listener subscribes to the new master.
func TestTheListenerFollowsAFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sentinels")
	}
	t.Parallel()
	s := redistest.StartSentinel(t)
	rule := mustRule(t, core.PerHour(3))
	a, b := redisstore.New(s.Client(t)), redisstore.New(s.Client(t), caching(""))
	b.SetListenTimes(50*time.Millisecond, 10*time.Millisecond, time.Minute, time.Minute)
	listening(t, b)
	a.BeAsPatientAsUsual()
	b.BeAsPatientAsUsual()
	old := s.Master(t)
	old.Kill()
	s.AwaitFailover(t, old)
	answers := func(s *redisstore.Store, c core.Check) (r core.Result) {
		results := make([]core.Result, 1)
		wait.Until(t, "the new master decides", func() bool { return s.Take(t.Context(), []core.Check{c}, results) == nil })
		return results[0]
	}
	answers(a, checkOf("k", rule, 3))
	wait.Until(t, "the listener is back", func() bool {
		answers(b, checkOf("k", rule, 1))
		return b.Hears()
	})
	if r := answers(b, checkOf("k", rule, 1)); r.Allowed {
		t.Fatalf("got %+v, want a denial", r)
	}
	wait.Until(t, "a reset succeeds", func() bool { return a.Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}) == nil })
	wait.Until(t, "the reset is seen", func() bool { return answers(b, checkOf("k", rule, 1)).Allowed })
}

// A denied request whose limits are in several slots of a Cluster ends with what is given back in
// whichever slot has denied.
func TestADenialOfSeveralSlotsEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Cluster")
	}
	t.Parallel()
	cluster, prefix := redistest.SharedCluster(t), redistest.Prefix(t)
	a := redisstore.New(cluster.Client(t), redisstore.Config{Prefix: prefix})
	b := redisstore.New(cluster.Client(t), caching(prefix))
	listening(t, b)
	rules := []*core.Rule{mustRule(t, core.PerHour(3).Named("a")), mustRule(t, core.PerHour(3).Named("b")), mustRule(t, core.PerHour(3).Named("c"))}
	for slots := 2; slots <= 3; slots++ {
		for full := range slots {
			var checks []core.Check
			for i, rule := range rules[:slots] {
				checks = append(checks, checkOf(fmt.Sprint("several", slots, full, i), rule, 1))
			}
			spent := checks[full]
			spent.Cost = 3
			take(t, a, spent)
			for n := range 3 {
				if r := take(t, b, checks...)[full]; r.Allowed || n == 2 && !r.Cached {
					t.Fatalf("slot %d of %d: got %+v, want a denial that is repeated", full+1, slots, r)
				}
			}
			must.OK(t, a.Reset(t.Context(), []core.Check{spent}))
			wait.Until(t, fmt.Sprintf("the reset of slot %d of %d", full+1, slots), func() bool { return take(t, b, checks...)[full].Allowed })
		}
	}
}
