package bench

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/weblimit/weblimit/bench/peers"
)

// BenchmarkMemory has as many goroutines as processors call one limiter, whose state is in this
// process. It reports errors/op as BenchmarkRedis does. With a million keys it also reports B/key:
// the heap per key, without the caller's own copy of the key.
func BenchmarkMemory(b *testing.B) {
	all := rotated(func(p peers.Peer) bool { return p.Memory != nil })
	for _, n := range []int{1, 100_000, 1_000_000} {
		keys := newKeys(n)
		for _, p := range all {
			var s *memorySetting // made when the benchmark is chosen, kept while b.N grows
			b.Run(p.Name+"/"+counts[n], func(b *testing.B) {
				if s == nil {
					s = newMemorySetting(b, p, keys)
				}
				s.run(b, keys)
			})
			if s != nil && s.limiter.Close != nil {
				s.limiter.Close()
			}
		}
	}
}

type memorySetting struct {
	limiter peers.Limiter
	bytes   float64 // per key
}

func newMemorySetting(b *testing.B, p peers.Peer, keys []string) *memorySetting {
	b.Helper()
	before := heap()
	l, err := p.Memory(allowing(len(keys)))
	if err != nil {
		b.Fatal(err)
	}
	touch(b, l, keys, 1)
	return &memorySetting{l, float64(int64(heap()-before)) / float64(len(keys))}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one only emptied from pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func (s *memorySetting) run(b *testing.B, keys []string) {
	var seed, failed, denied atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		picker, ctx := newPicker(keys, seed.Add(1)), context.Background()
		errors, wrong := uint64(0), uint64(0)
		for pb.Next() {
			switch allowed, err := s.limiter.Check(ctx, picker.pick()); {
			case err != nil:
				errors++
			case !allowed:
				wrong++
			}
		}
		failed.Add(errors)
		denied.Add(wrong)
	})
	b.StopTimer()
	if n := denied.Load(); n > 0 {
		b.Errorf("%d of %d checks were denied", n, b.N)
	}
	if n := failed.Load(); n > 0 {
		b.ReportMetric(float64(n)/float64(b.N), "errors/op")
	}
	if len(keys) == 1_000_000 {
		b.ReportMetric(s.bytes, "B/key")
	}
}
