package redisstore_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
)

func onceRule(t testing.TB, l core.Limit) *core.Rule {
	t.Helper()
	return mustRule(t, l.OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Repeats(1000))
}

func operation(key string, rule *core.Rule, once string) core.Check {
	c := checkOf(key, rule, 1)
	c.Once = []byte(once)
	return c
}

// Whatever key a client chooses for its operation, the mark is a short Redis key in the
// slot of the client's value, and expires with the operation's ttl.
func TestAMarkIsAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	store, server, prefix := newStore(t)
	client, rule := server.Client(t), onceRule(t, core.PerMinute(5))
	for _, once := range []string{"a", "", "}{other}", "\x00\xff", strings.Repeat("long", 5000)} {
		take(t, store, operation("user:1", rule, once))
	}
	keys := client.Keys(t.Context(), prefix+"*").Val()
	slices.Sort(keys)
	if len(keys) != 6 || keys[0] != prefix+"{user:1}" {
		t.Fatalf("keys %q, want the client's and five marks", keys)
	}
	for _, key := range keys[1:] {
		if redisstore.SlotOf(key) != redisstore.SlotOf(keys[0]) || len(key) != len(keys[0])+23 {
			t.Errorf("a mark is called %q, the client %q", key, keys[0])
		}
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 59*time.Minute || ttl > time.Hour+time.Second {
			t.Errorf("%q expires in %v", key, ttl)
		}
		if value := client.Get(t.Context(), key).Val(); len(value) != 26 || value[0] != 2 {
			t.Errorf("%q holds %q", key, value)
		}
	}
	checks := []core.Check{operation("user:1", rule, "a")}
	results := take(t, store, checks...)
	if !results[0].Repeated {
		t.Errorf("a repeat: %+v", results[0])
	}
	must.OK(t, store.Reset(t.Context(), checks))
	if keys = client.Keys(t.Context(), prefix+"*").Val(); len(keys) != 4 {
		t.Errorf("after a reset of one operation there are %q", keys)
	}
}

func TestAnOperationIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t))
	rule, other := onceRule(t, core.PerHour(5).Named("a")), onceRule(t, core.Per(5, hammerWindow).FixedWindow().Named("b"))
	take(t, store, operation("k", rule, "first"), operation("k", other, "first")) // loads the script
	before := server.Commandstats(t)
	take(t, store, operation("k", rule, "op"), operation("k", other, "op"), checkOf("all", mustRule(t, core.PerHour(5).Named("c")), 1))
	after := server.Commandstats(t)
	check.Equal(t, "calls that an operation under two limits made", after["evalsha"].Calls-before["evalsha"].Calls, 1)
}

// A mark is a value like others: one that can't be read is an outage, and nothing is
// charged.
func TestAForeignMarkIsAnOutage(t *testing.T) {
	t.Parallel()
	store, server, prefix := newStore(t)
	client, rule := server.Client(t), onceRule(t, core.PerHour(5))
	take(t, store, operation("k", rule, "op"))
	keys := client.Keys(t.Context(), prefix+"*:*").Val()
	mark := keys[slices.IndexFunc(keys, func(key string) bool { return strings.Contains(key, "}:") })]
	for _, bad := range []string{"someone else's", "\x01\x00"} {
		redistest.Prepare(t, client, func(p redis.Pipeliner) { p.Set(t.Context(), mark, bad, 0) })
		if err := store.Take(t.Context(), []core.Check{operation("k", rule, "op")}, make([]core.Result, 1)); err == nil {
			t.Errorf("a mark of %q was read", bad)
		}
	}
	check.Equal(t, "of 5 remain", take(t, store, checkOf("k", rule, 0))[0].Remaining, 4)
}

// Neither the denial cache nor prefetched slices decide for an operation that may have
// been charged.
func TestRepeatsPassCacheAndPrefetch(t *testing.T) {
	t.Parallel()
	rule := onceRule(t, core.Per(1000, hammerWindow).FixedWindow())
	store, _, _ := newStore(t, redisstore.Config{DenialCache: redisstore.DenialCache{Age: forever, Size: 64}, Prefetch: redisstore.Prefetch{Fraction: 0.5, MaxAge: 100 * time.Millisecond}})
	if first := take(t, store, operation("k", rule, "op"))[0]; !first.Charged {
		t.Fatalf("the first: %+v", first)
	}
	granted := int64(1)
	for range 400 { // hot by now, and prefetched if that were possible
		if take(t, store, checkOf("k", rule, 1))[0].Charged {
			granted++
		}
	}
	for range 400 {
		if got := take(t, store, operation("k", rule, "op"))[0]; !got.Repeated || got.Charged {
			t.Fatalf("a repeat of a hot key: %+v", got)
		}
	}
	wait.Until(t, "the last unit comes back", func() bool { // which a slice may hold for a while
		if take(t, store, checkOf("k", rule, 1))[0].Charged {
			granted++
		}
		return granted == 1000
	})
	wait.Until(t, "a denial is cached", func() bool {
		got := take(t, store, checkOf("k", rule, 1))[0]
		if got.Allowed {
			t.Fatalf("a unit more than the quota: %+v", got)
		}
		return got.Cached
	})
	for range 3 {
		if got := take(t, store, operation("k", rule, "new"))[0]; got.Allowed || got.Cached {
			t.Errorf("a new operation: %+v, want a denial of Redis's", got)
		}
		if got := take(t, store, operation("k", rule, "op"))[0]; !got.Allowed || !got.Repeated {
			t.Errorf("a repeat: %+v", got)
		}
	}
}

// Of a thousand repeats of one operation at once, on several stores as several processes
// have them, one is charged.
func TestParallelRepeatsOfSeveralStores(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	rule := onceRule(t, core.PerDay(1))
	repeatAtOnce(t, rule, redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}), redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}))
}

func repeatAtOnce(t *testing.T, rule *core.Rule, stores ...core.Store) {
	t.Helper()
	var charged, repeated atomic.Int64
	var all sync.WaitGroup
	for g := range 50 {
		all.Go(func() {
			checks, results := []core.Check{operation("k", rule, "op")}, make([]core.Result, 1)
			for range 20 {
				if err := stores[g%len(stores)].Take(t.Context(), checks, results); err != nil {
					t.Errorf("take: %v", err)
					return
				}
				if results[0].Charged {
					charged.Add(1)
				}
				if results[0].Repeated && results[0].Allowed {
					repeated.Add(1)
				}
			}
		})
	}
	all.Wait()
	if charged.Load() != 1 || repeated.Load() != 999 {
		t.Errorf("of a thousand, %d were charged and %d passed as repeats", charged.Load(), repeated.Load())
	}
}

func TestOperationsOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.SharedCluster(t).Client(t)
	prefix := redistest.Prefix(t)
	store := redisstore.New(client, redisstore.Config{Prefix: prefix})
	rule := onceRule(t, core.PerDay(1).Named("once"))
	repeatAtOnce(t, rule, store)

	// What one slot charged is given back with its mark when another denies.
	wide, tight := onceRule(t, core.PerDay(9).Named("wide")), mustRule(t, core.PerDay(1).Named("tight"))
	other := 0
	for redisstore.SlotOf(prefix+"{all}") == redisstore.SlotOf(prefix+"{"+string(rune('a'+other))+"}") {
		other++
	}
	key := string(rune('a' + other))
	take(t, store, checkOf("all", tight, 1))
	for range 3 {
		got := take(t, store, operation(key, wide, "op"), checkOf("all", tight, 1))
		if got[0].Charged || got[0].Repeated || got[0].Remaining != 9 || got[1].Allowed {
			t.Fatalf("denied by another slot: %+v", got)
		}
	}
	must.OK(t, store.Reset(t.Context(), []core.Check{checkOf("all", tight, 0)}))
	if got := take(t, store, operation(key, wide, "op"), checkOf("all", tight, 1)); !got[0].Charged || got[0].Remaining != 8 || !got[1].Charged {
		t.Errorf("the first that is granted: %+v", got)
	}
	if got := take(t, store, operation(key, wide, "op"), checkOf(key, mustRule(t, core.PerDay(5).Named("plain")), 1)); !got[0].Repeated || !got[1].Charged {
		t.Errorf("a repeat: %+v", got)
	}
	if bytes.Contains([]byte(prefix), []byte("{")) {
		t.Error("the prefix has a hash tag: one slot is no test")
	}
}
