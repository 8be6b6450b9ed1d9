package redisstore_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// BenchmarkGiveBack is what a request, a denial and a refund cost with the denial cache on: a
// store that has denied something listens to what others give back.
func BenchmarkGiveBack(b *testing.B) {
	wide, never := mustRule(b, core.PerHour(1_000_000_000).FixedWindow().Named("wide")), mustRule(b, core.Per(1, 1000*time.Hour).Named("never"))
	run := func(name string, config redisstore.Config, f func(s *redisstore.Store, b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			server := redistest.Shared(b)
			config.Prefix = redistest.Prefix(b)
			s := redisstore.New(server.Client(b), config)
			take := func(c core.Check) {
				must.OK(b, s.Take(b.Context(), []core.Check{c}, make([]core.Result, 1)))
			}
			for range 200 { // until it listens, where it can
				take(checkOf("never", never, 1))
				time.Sleep(time.Millisecond)
			}
			before := server.Commandstats(b)["evalsha"].Micros
			b.ReportAllocs()
			b.ResetTimer()
			f(s, b)
			b.StopTimer()
			b.ReportMetric(float64(server.Commandstats(b)["evalsha"].Micros-before)/float64(b.N), "redis-µs/op")
		})
	}
	repeat := func(c core.Check, refund bool) func(*redisstore.Store, *testing.B) {
		return func(s *redisstore.Store, b *testing.B) {
			checks, results := []core.Check{c}, make([]core.Result, 1)
			for b.Loop() {
				err := s.Take(b.Context(), checks, results)
				if err == nil && refund {
					err = s.Refund(b.Context(), checks, results)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	uncached := redisstore.Config{DenialCache: redisstore.DenialCache{Age: time.Nanosecond}}
	off := redisstore.Config{DenialCache: redisstore.DenialCache{Disabled: true}}
	run("allowed", redisstore.Config{}, repeat(checkOf("wide", wide, 1), false))
	run("allowed and refunded", redisstore.Config{}, repeat(checkOf("wide", wide, 1), true))
	run("denied, cached", redisstore.Config{}, repeat(checkOf("never", never, 1), false))
	run("denied, expired", uncached, repeat(checkOf("never", never, 1), false))
	run("denied, cache off", off, repeat(checkOf("never", never, 1), false))
}
