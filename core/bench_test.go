package core_test

import (
	"context"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/keyfuncs"
)

// BenchmarkMemory decides in the memory store: no allocation.
func BenchmarkMemory(b *testing.B) {
	limits := []struct {
		name  string
		limit core.Limit
	}{
		{"bucket", core.PerSecond(1_000_000_000)},
		{"fixed", core.PerDay(1_000_000_000).FixedWindow()},
		{"sliding", core.PerHour(100_000_000).SlidingWindow()},
		{"denied", core.PerDay(1)},
	}
	for _, l := range limits {
		for _, keys := range []int{1, 100_000, 1_000_000} {
			b.Run(l.name+"/"+strconv.Itoa(keys)+" keys", func(b *testing.B) {
				rule, err := l.limit.Rule()
				if err != nil {
					b.Fatal(err)
				}
				m := core.NewMemory()
				all := make([][]byte, keys)
				for i := range all {
					all[i] = strconv.AppendInt([]byte("user:"), int64(i), 10)
				}
				var seed atomic.Uint64
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					n := seed.Add(1) * 7919
					checks, results := []core.Check{{Rule: &rule, Cost: 1}}, make([]core.Result, 1)
					for pb.Next() {
						n = n*6364136223846793005 + 1442695040888963407
						checks[0].Key = all[(n>>33)%uint64(keys)]
						if err := m.Take(context.Background(), checks, results); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

// BenchmarkMemoryFlood has new keys come to a store that is full: of clients
// that have something left, and of such that have nothing.
func BenchmarkMemoryFlood(b *testing.B) {
	for name, cost := range map[string]int64{"harmless": 1, "limited": 10} {
		b.Run(name, func(b *testing.B) {
			rule, err := core.PerDay(10).Rule()
			if err != nil {
				b.Fatal(err)
			}
			m, key := core.NewMemory(), make([]byte, 8)
			checks, results := []core.Check{{Key: key, Rule: &rule, Cost: cost}}, make([]core.Result, 1)
			n := uint64(0)
			flood := func() {
				n++
				binary.LittleEndian.PutUint64(key, n)
				if err := m.Take(context.Background(), checks, results); err != nil {
					b.Error(err)
				}
			}
			for range memstore.DefaultMaxBuckets * 5 / 4 {
				flood()
			}
			b.ReportAllocs()
			for b.Loop() {
				flood()
			}
		})
	}
}

// BenchmarkLimiter decides one and three limits for a key, as AllowKey does: no
// allocation, and one for the results of three.
func BenchmarkLimiter(b *testing.B) {
	limits := []core.Limit{
		core.PerSecond(1_000_000_000).By(keyfuncs.Everyone()).Named("a"),
		core.PerDay(1_000_000_000).FixedWindow().By(keyfuncs.Everyone()).Named("b"),
		core.PerHour(100_000_000).SlidingWindow().By(keyfuncs.Everyone()).Named("c"),
	}
	for _, n := range []int{1, 3} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			limiter := core.ForLimits(core.NewMemory(), limits[:n])
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if d := limiter.AllowKey(context.Background(), "user:42", 1); !d.Allowed {
						b.Error("denied")
					}
				}
			})
		})
	}
}

// planTier chooses a tier by a header.
func planTier(r keyfuncs.Request) core.Limit {
	if keyfuncs.HeaderOf(r, "X-Plan") == "pro" {
		return core.PerSecond(2_000_000_000)
	}
	return core.PerSecond(1_000_000_000)
}

// BenchmarkFunctions decides a request under one limit whose functions read it, beside one
// without: no allocation.
func BenchmarkFunctions(b *testing.B) {
	limit := core.PerSecond(1_000_000_000).By(keyfuncs.Everyone())
	isPro := keyfuncs.Matches(func(r keyfuncs.Request) bool { return keyfuncs.HeaderOf(r, "X-Plan") == "pro" })
	for _, row := range []struct {
		name  string
		limit core.Limit
	}{
		{"none", limit},
		{"When", limit.When(keyfuncs.Methods("GET", "POST"))},
		{"When, by a function of a header", limit.When(isPro)},
		{"CostBy", limit.CostBy(func(keyfuncs.Request) int64 { return 1 })},
		{"CostBy a header", limit.CostBy(func(r keyfuncs.Request) int64 { return int64(len(keyfuncs.HeaderOf(r, "X-Items"))) })},
		{"Tiers by a header", limit.Tiers(planTier)},
		{"KeepFree by a header", limit.KeepFree(0.5, isPro)},
	} {
		b.Run(row.name, func(b *testing.B) {
			limiter := core.ForLimits(core.NewMemory(), []core.Limit{row.limit})
			r := &request{peer: "198.51.100.7", headers: map[string]string{"X-Plan": "pro", "X-Items": "1"}}
			b.ReportAllocs()
			for b.Loop() {
				if d := limiter.Allow(r); !d.Allowed {
					b.Fatal(d.Reason)
				}
			}
		})
	}
}

// BenchmarkAllowAtMost takes batches that fit, and batches of which a part fits: the second
// asks the store twice.
func BenchmarkAllowAtMost(b *testing.B) {
	for name, n := range map[string]int64{"all": 10, "a part": 1 << 40} {
		b.Run(name, func(b *testing.B) {
			limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerSecond(1_000_000_000).By(keyfuncs.Everyone())})
			b.ReportAllocs()
			for b.Loop() {
				if granted, d := limiter.AllowKeyAtMost(context.Background(), "user:42", n); granted == 0 && n == 10 {
					b.Fatal(d.Reason)
				}
			}
		})
	}
}

// BenchmarkSpacing has 50 requests arrive at once under a limit that lets one
// through every 10ms, and reports by how much the time between two is off.
func BenchmarkSpacing(b *testing.B) {
	const requests, pace = 50, 10 * time.Millisecond
	var errors []time.Duration
	for b.Loop() {
		l := core.ForLimits(core.NewMemory(), []core.Limit{forAll(core.PerSecond(int64(time.Second / pace)).LeakyBucket(time.Minute))})
		turns, _ := together(l, requests)
		for i := range turns[1:] {
			errors = append(errors, (turns[i+1] - turns[i] - pace).Abs())
		}
	}
	slices.Sort(errors)
	b.ReportMetric(float64(errors[len(errors)/2].Microseconds()), "p50-error-µs")
	b.ReportMetric(float64(errors[len(errors)*99/100].Microseconds()), "p99-error-µs")
}

// What each dialect costs a response, of a limit of the calendar.
func BenchmarkDialects(b *testing.B) {
	for name, dialect := range dialects {
		b.Run(name, func(b *testing.B) {
			l := newLimiter(b, core.Config{Store: core.NewMemory(), Headers: dialect, Limits: []core.Limit{monthly(1 << 40)}})
			d, h := l.Allow(&request{}), http.Header{}
			b.ReportAllocs()
			for b.Loop() {
				clear(h)
				d.SetHeaders(adapter.HeaderMap(h))
			}
		})
	}
}
