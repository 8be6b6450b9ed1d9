package redisstore_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// Keys that are not hot are answered as without prefetching. No key of the suite becomes
// hot within a millisecond.
func TestRedisWithPrefetch(t *testing.T) {
	t.Parallel()
	storetest.RunAgain(t, onRedis(redistest.Shared(t).Client(t), redisstore.Config{Prefetch: redisstore.Prefetch{Fraction: 0.1, MaxAge: time.Millisecond}}))
}

// Four processes, each with its own connections, share a quota that does not refill while
// they ask. They never grant more than the quota, and what they have not granted is
// available again when the slices are over.
func TestPrefetchOfManyProcesses(t *testing.T) {
	t.Parallel()
	const quota, stores, goroutines, rounds = 20_000, 4, 16, 400 // 25,600 requests
	for name, limit := range map[string]core.Limit{
		"token bucket":   core.Per(quota, hammerWindow),
		"fixed window":   core.Per(quota, hammerWindow).FixedWindow(),
		"first use":      core.Per(quota, hammerWindow).FromFirstUse(),
		"sliding window": core.Per(quota, hammerWindow).SlidingWindow(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, prefix, rule := redistest.Shared(t), redistest.Prefix(t), mustRule(t, limit)
			var granted atomic.Int64
			var all sync.WaitGroup
			for range stores {
				client := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr()})
				t.Cleanup(func() { _ = client.Close() })
				store := redisstore.New(client, redisstore.Config{Prefix: prefix, Prefetch: redisstore.Prefetch{Fraction: 0.1, MaxAge: 50 * time.Millisecond}, DenialCache: redisstore.DenialCache{Disabled: true}})
				all.Go(func() { granted.Add(storetest.Hammer(t, store, rule, "hot", 1, goroutines, rounds)) })
			}
			all.Wait()
			if granted.Load() > quota {
				t.Errorf("granted %d of %d", granted.Load(), quota)
			}
			exact := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
			wait.For(t, "what was not granted comes back", func() error {
				if left := peek(t, exact, checkOf("hot", rule, 1)).Remaining; left != quota-granted.Load() {
					return fmt.Errorf("%d granted, and %d remain of %d", granted.Load(), left, quota)
				}
				return nil
			})
		})
	}
}

func TestAHotKeyIsPrefetched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t), redisstore.Config{Prefetch: redisstore.Prefetch{Fraction: 0.01, MaxAge: time.Minute}})
	rule := mustRule(t, core.Per(100_000_000, 365*24*time.Hour)) // which regains a unit in 0.3 s
	before := server.Calls(t, "evalsha")
	for range 10_000 {
		if r := take(t, store, checkOf("k", rule, 1))[0]; !r.Charged || r.Remaining >= rule.Quota || r.Remaining < rule.Quota-11_000 {
			t.Fatalf("got %+v", r)
		}
	}
	if got := server.Calls(t, "evalsha") - before; got > 200 {
		t.Errorf("10,000 requests of one key cost Redis %d calls", got)
	}
	// A reset drops the slice, too.
	must.OK(t, store.Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}))
	before = server.Calls(t, "evalsha")
	take(t, store, checkOf("k", rule, 1))
	if server.Calls(t, "evalsha") == before {
		t.Error("a slice outlived a reset")
	}
}

// A charge that a slice has decided is refunded like any other.
func TestRefundOfAPrefetchedCharge(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t, redisstore.Config{Prefetch: redisstore.Prefetch{Fraction: 0.01, MaxAge: forever}})
	rule := mustRule(t, core.Per(1_000_000, hammerWindow).FixedWindow())
	c := checkOf("k", rule, 3)
	var charged []core.Result
	for range 500 {
		charged = take(t, store, c)
	}
	before := peek(t, store, c).Remaining
	if before >= rule.Quota-1500 {
		t.Fatalf("%d remain: nothing is prefetched", before)
	}
	must.OK(t, store.Refund(t.Context(), []core.Check{c}, charged))
	if got := peek(t, store, c).Remaining; got != before+3 {
		t.Errorf("%d remain after 3 units were refunded, %d before", got, before)
	}
}

func TestConfigRefusesNonsense(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = client.Close() })
	one := redisstore.Config{Prefix: "shop:"}
	for _, bad := range [][]redisstore.Config{
		{{Prefetch: redisstore.Prefetch{MaxAge: time.Second}}},
		{{Prefetch: redisstore.Prefetch{Fraction: -1, MaxAge: time.Second}}},
		{{Prefetch: redisstore.Prefetch{Fraction: 1.01, MaxAge: time.Second}}},
		{{Prefetch: redisstore.Prefetch{Fraction: math.NaN(), MaxAge: time.Second}}},
		{{Prefetch: redisstore.Prefetch{Fraction: 0.1, MaxAge: -1}}},
		{{Prefetch: redisstore.Prefetch{Fraction: 0.1, MaxAge: time.Microsecond}}},
		{{DenialCache: redisstore.DenialCache{Age: -1}}},
		{{DenialCache: redisstore.DenialCache{Size: -1}}},
		{{DenialCache: redisstore.DenialCache{Size: 7}}},
		{{Prefix: "{}"}},
		{{Prefix: "shop{}{limits}:"}},
		{one, one},
	} {
		if panicOf(func() { redisstore.New(client, bad...) }) == nil {
			t.Errorf("New with %+v does not panic", bad)
		}
	}
}

// A cache that is off has neither an age nor a size, and zero is a default everywhere.
func TestConfigTakesACacheThatIsOff(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = client.Close() })
	for _, fine := range []redisstore.DenialCache{
		{}, {Disabled: true}, {Disabled: true, Age: -1, Size: -1}, {Disabled: true, Size: 7}, {Age: time.Second}, {Size: 8}, {Age: 1},
	} {
		redisstore.New(client, redisstore.Config{DenialCache: fine})
	}
}

// BenchmarkPrefetch asks for one hot key, from 64 and 256 goroutines.
func BenchmarkPrefetch(b *testing.B) {
	rule := mustRule(b, core.PerSecond(1_000_000_000))
	for _, concurrency := range []struct {
		name string
		per  int // goroutines per processor
	}{{"c64", 32}, {"c256", 128}} {
		for _, with := range []struct {
			name     string
			prefetch redisstore.Prefetch
		}{{"without", redisstore.Prefetch{}}, {"prefetch", redisstore.Prefetch{Fraction: 0.1}}} {
			b.Run(concurrency.name+"/"+with.name, func(b *testing.B) {
				store, _, _ := newStore(b, redisstore.Config{Prefetch: with.prefetch})
				b.ReportAllocs()
				b.SetParallelism(concurrency.per)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					checks, results := []core.Check{checkOf("hot", rule, 1)}, make([]core.Result, 1)
					for pb.Next() {
						if err := store.Take(context.Background(), checks, results); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}
