package regions_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// BenchmarkMemory measures what a key above its floor takes: of the process, and of Redis in the region and at home.
//
//	go test -run '^$' -bench Memory -benchtime 20000x ./regions
func BenchmarkMemory(b *testing.B) {
	server, other := redistest.Start(b), redistest.Start(b)
	used := func(s *redistest.Server) int64 {
		sum, ctx, client := int64(0), context.Background(), s.Client(b)
		for _, key := range must.Get(client.Keys(ctx, "*").Result())(b) {
			sum += must.Get(client.MemoryUsage(ctx, key).Result())(b)
		}
		return sum
	}
	limits := []core.Limit{core.Per(1000, 24*time.Hour).FixedWindow().By(keyfuncs.Everyone())}
	limiter := func(s core.Store) *core.Limiter {
		return must.Get(core.New(core.Config{Store: s, Timeout: time.Minute, Limits: limits}))(b)
	}
	ask := func(l *core.Limiter) {
		for i := range b.N {
			if d := l.AllowKey(b.Context(), fmt.Sprintf("client-%08d", i), 100); !d.Allowed {
				b.Fatal(d.Reason, d.Err)
			}
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	s := must.Get(regions.New(redisstore.New(server.Client(b)), redisstore.New(other.Client(b)), regions.Config{Region: "eu", Regions: 3, MaxKeys: 1_000_000}))(b)
	defer func() { must.OK(b, s.Close()) }()
	l := limiter(s)
	time.Sleep(6 * time.Second) // home is new, and only learns at first
	before := heap()
	b.ResetTimer()
	ask(l)
	b.StopTimer()
	n := float64(b.N)
	b.ReportMetric(float64(heap()-before)/n, "B/key")
	b.ReportMetric(float64(used(server))/n, "B/key-in-the-region")
	b.ReportMetric(float64(used(other))/n, "B/key-at-home")

	plain := redistest.Start(b)
	ask(limiter(redisstore.New(plain.Client(b))))
	b.ReportMetric(float64(used(plain))/n, "B/key-without-regions")
}
