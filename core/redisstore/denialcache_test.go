package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// forever is an age that outlasts a test, on a busy machine, too.
const forever = time.Hour

// deniedStore returns a store on a server of its own, where key has used up the rule's
// quota. calls returns how often the server has run the script since.
func deniedStore(t *testing.T, key string, rule *core.Rule, config ...redisstore.Config) (store *redisstore.Store, server *redistest.Server, calls func() int64) {
	t.Helper()
	server = redistest.Start(t)
	store = redisstore.New(server.Client(t), config...)
	take(t, store, checkOf(key, rule, rule.Burst))
	if take(t, store, checkOf(key, rule, 1))[0].Allowed {
		t.Fatal("a request beyond the quota passed")
	}
	if len(config) == 0 || !config[0].DenialCache.Disabled {
		wait.Until(t, "the store listens", store.Hears) // which drops what was cached before
		take(t, store, checkOf(key, rule, 1))
	}
	before := server.Calls(t, "evalsha")
	return store, server, func() int64 { return server.Calls(t, "evalsha") - before }
}

func TestADenialIsRepeatedWithoutAskingRedis(t *testing.T) {
	t.Parallel()
	rule := mustRule(t, core.PerHour(3))
	store, _, calls := deniedStore(t, "k", rule, redisstore.Config{DenialCache: redisstore.DenialCache{Age: forever, Size: 8}})
	last := take(t, store, checkOf("k", rule, 1))[0]
	for range 1000 {
		r := take(t, store, checkOf("k", rule, 1))[0]
		switch {
		case r.Allowed || r.Charged || !r.Cached || r.Remaining != 0:
			t.Fatalf("got %+v, want the denial again", r)
		case r.RetryAfter > last.RetryAfter || r.RetryAfter <= 19*time.Minute || r.Window != r.RetryAfter || r.At < last.At:
			t.Fatalf("after %+v came %+v", last, r)
		}
		last = r
	}
	if got := calls(); got != 0 {
		t.Errorf("1,000 repeated denials cost Redis %d calls, want none", got)
	}
}

func TestADenialEndsWithItsRetryAfter(t *testing.T) {
	t.Parallel()
	rule := mustRule(t, core.Per(20, time.Second))
	store, _, _ := newStore(t, redisstore.Config{DenialCache: redisstore.DenialCache{Age: forever, Size: 8}})
	for denied := 0; denied < 20; {
		r := take(t, store, checkOf("k", rule, 1))[0]
		if r.Allowed { // a slow test may regain units between two requests
			continue
		}
		denied++
		time.Sleep(r.RetryAfter) // by Redis's clock, which nothing else moves
		if again := take(t, store, checkOf("k", rule, 1))[0]; !again.Allowed {
			t.Fatalf("denied with %+v, and denied again with %+v after exactly that wait", r, again)
		}
	}
}

func TestWhatIsGivenBackEndsADenialAtOnce(t *testing.T) {
	t.Parallel()
	limit := core.Per(3, hammerWindow).FixedWindow()
	rule := mustRule(t, limit)
	for name, giveBack := range giveBacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _, _ := newStore(t, caching(""))
			charged := take(t, store, checkOf("k", rule, 3))
			for range 2 {
				if r := take(t, store, checkOf("k", rule, 1))[0]; r.Allowed {
					t.Fatalf("a fourth request of three passed: %+v", r)
				}
			}
			must.OK(t, giveBack(t, store, limit, charged))
			if r := take(t, store, checkOf("k", rule, 1))[0]; !r.Allowed || r.Cached {
				t.Errorf("got %+v, want it allowed", r)
			}
		})
	}
}

// Units that another process gives back are noticed when the denial's age is over.
func TestADenialIsNoOlderThanItMayBe(t *testing.T) {
	t.Parallel()
	rule := mustRule(t, core.PerHour(3))
	store, server, calls := deniedStore(t, "k", rule, redisstore.Config{DenialCache: redisstore.DenialCache{Age: 20 * time.Millisecond, Size: 8}})
	other := redisstore.New(server.Client(t))
	must.OK(t, other.Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}))
	wait.Until(t, "the denial ends", func() bool { return take(t, store, checkOf("k", rule, 1))[0].Allowed })
	if got := calls(); got < 2 { // the reset and the last
		t.Errorf("%d calls, want Redis asked", got)
	}
}

// A goroutine that looks for a denial can have read the time before the answer arrived that it finds.
func TestADenialIsNotFromBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	rule := mustRule(t, core.PerHour(3))
	checks := []core.Check{checkOf("k", rule, 1)}
	s := redisstore.New(redistest.Shared(t).Client(t), redisstore.Config{Prefix: redistest.Prefix(t), DenialCache: redisstore.DenialCache{Age: forever}})
	listening(t, s) // which drops what was cached before
	take(t, s, checkOf("k", rule, 3))
	told := take(t, s, checks...)[0]
	s.ReceiveLater(checks, forever)
	told.Cached = true
	if r := take(t, s, checks...)[0]; r != told {
		t.Errorf("got %+v, want what Redis said: %+v", r, told)
	}
}

// Requests with other costs, limits, keys or numbers are not denied by the cache.
func TestADenialIsOfOneRequest(t *testing.T) {
	t.Parallel()
	rule := mustRule(t, core.PerHour(3).Named("a"))
	store, _, calls := deniedStore(t, "k", rule, redisstore.Config{DenialCache: redisstore.DenialCache{Age: forever, Size: 8}})
	other := mustRule(t, core.PerHour(3).Named("b"))
	raised := mustRule(t, core.PerHour(6).Named("a"))
	for name, tt := range map[string]struct {
		checks  []core.Check
		allowed bool
	}{
		"another key":        {[]core.Check{checkOf("l", rule, 1)}, true},
		"another limit":      {[]core.Check{checkOf("k", other, 1)}, true},
		"another cost":       {[]core.Check{checkOf("k", rule, 2)}, false},
		"no cost":            {[]core.Check{checkOf("k", rule, 0)}, true},
		"a raised limit":     {[]core.Check{checkOf("k", raised, 1)}, true},
		"in shadow mode":     {[]core.Check{{Key: []byte("k"), Rule: rule, Cost: 1, Shadow: true}}, false},
		"with another limit": {[]core.Check{checkOf("k", rule, 1), checkOf("k", other, 1)}, false},
	} {
		before := calls()
		if r := take(t, store, tt.checks...)[0]; r.Allowed != tt.allowed || r.Cached {
			t.Errorf("%s: got %+v, want allowed=%v by Redis", name, r, tt.allowed)
		}
		if calls() == before {
			t.Errorf("%s: Redis was not asked", name)
		}
	}
}

// Trap 30: an attacker with many denied keys does not displace a denial that is in use,
// and takes no more memory than the cache may.
func TestThrowAwayKeysDoNotPushOutADenialInUse(t *testing.T) {
	t.Parallel()
	rule := mustRule(t, core.PerHour(1))
	store, _, calls := deniedStore(t, "victim", rule, redisstore.Config{DenialCache: redisstore.DenialCache{Age: forever, Size: 64}})
	use := func() {
		if r := take(t, store, checkOf("victim", rule, 1))[0]; !r.Cached {
			t.Fatalf("the denial in use was pushed out: %+v", r)
		}
	}
	use()
	for i := range 2000 {
		key := fmt.Sprint("throw-away ", i)
		take(t, store, checkOf(key, rule, 1))
		take(t, store, checkOf(key, rule, 1))
		if i%100 == 0 {
			use()
		}
	}
	use()
	before := calls()
	use()
	if calls() != before {
		t.Error("Redis was asked")
	}
}

func TestADisabledDenialCacheAsksEachTime(t *testing.T) {
	t.Parallel()
	rule := mustRule(t, core.PerHour(1))
	store, _, calls := deniedStore(t, "k", rule, redisstore.Config{DenialCache: redisstore.DenialCache{Disabled: true}})
	for range 5 {
		take(t, store, checkOf("k", rule, 1))
	}
	check.Equal(t, "calls that 5 requests cost", calls(), 5)
}
