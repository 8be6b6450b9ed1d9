package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Each benchmark reports allocations in this process and the time that Redis
// itself spent per check, by its own account (INFO commandstats).

func BenchmarkTake(b *testing.B) {
	limits := map[string]core.Limit{
		"bucket":  core.PerSecond(1_000_000_000).Named("bucket"),
		"fixed":   core.PerDay(1_000_000_000).FixedWindow().Named("fixed"),
		"sliding": core.PerHour(100_000_000).SlidingWindow().Named("sliding"),
		"log":     core.PerMinute(100).SlidingLog().Named("log"),
		"odd":     core.PerSecond(300_000_007).Named("odd"),
		"denied":  core.Per(1, 1000*time.Hour).Named("denied"),
	}
	for _, name := range []string{"bucket", "fixed", "sliding", "log", "odd", "denied"} {
		b.Run(name, func(b *testing.B) { benchmarkTake(b, 100_000, limits[name]) })
	}
	several := []core.Limit{limits["bucket"], limits["fixed"], limits["sliding"], limits["odd"], core.PerDay(1_000_000_000).Named("daily")}
	for _, n := range []int{3, 5} {
		b.Run(fmt.Sprintf("%d limits of a key", n), func(b *testing.B) { benchmarkTake(b, 100_000, several[:n]...) })
	}
	b.Run("hot", func(b *testing.B) { benchmarkTake(b, 1, limits["bucket"]) })
}

func benchmarkTake(b *testing.B, keys int, limits ...core.Limit) {
	server := redistest.Shared(b)
	store := redisstore.New(server.Client(b), redisstore.Config{Prefix: redistest.Prefix(b)})
	rules := make([]core.Rule, len(limits))
	for i, l := range limits {
		var err error
		if rules[i], err = l.Rule(); err != nil {
			b.Fatal(err)
		}
	}
	var seed atomic.Uint64
	before := server.Commandstats(b)["evalsha"].Micros
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		n := seed.Add(1) * 7919
		checks, results := make([]core.Check, len(rules)), make([]core.Result, len(rules))
		var key []byte
		for pb.Next() {
			n = n*6364136223846793005 + 1442695040888963407
			key = fmt.Appendf(key[:0], "user:%d", int(n>>33)%keys)
			for i := range checks {
				checks[i] = core.Check{Key: key, Rule: &rules[i], Cost: 1}
			}
			if err := store.Take(context.Background(), checks, results); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(server.Commandstats(b)["evalsha"].Micros-before)/float64(b.N), "redis-µs/op")
}
