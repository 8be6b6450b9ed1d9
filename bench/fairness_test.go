package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/bench/latency"
	"github.com/weblimit/weblimit/bench/peers"
)

// Of all callers of BenchmarkFairness, one in crowd+1 asks for a key of its own, and the others for one
// key.
const (
	fairCallers = 220
	crowd       = 10
)

// BenchmarkFairness has ten callers ask for one key for each that asks for a key of its own, all as fast
// as they can. It reports
//
//	share                     checks of a caller with a key of its own, for each check of one in the crowd
//	crowd-p99-µs, own-p99-µs  how long checks took
//
// A limiter that gathers equal checks could serve a crowd first. The benchmark fails if the share of
// weblimit is below one half.
func BenchmarkFairness(b *testing.B) {
	lab := newRedisLab(b)
	for _, p := range rotated(func(p peers.Peer) bool { return p.Redis != nil }) {
		if p.Scenario != nil { // what it measures does not ask for each check
			continue
		}
		b.Run(p.Name, func(b *testing.B) {
			l := lab.setting(b, p, 1, true).limiter // whose quota is enough for the crowd
			keys := newKeys(1 + fairCallers)
			var asked, failed [2]atomic.Int64 // by the crowd, by the others
			var took [2]latency.Histogram
			var mu sync.Mutex
			left := atomic.Int64{}
			left.Store(int64(b.N))
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range fairCallers {
				all.Go(func() {
					kind, key := 0, keys[0]
					if i%(crowd+1) == 0 {
						kind, key = 1, keys[1+i]
					}
					var own latency.Histogram
					n := int64(0)
					for ; left.Add(-1) >= 0; n++ {
						began := time.Now()
						if _, err := l.Check(context.Background(), key); err != nil {
							failed[kind].Add(1)
						}
						own.Record(time.Since(began))
					}
					asked[kind].Add(n)
					mu.Lock()
					defer mu.Unlock()
					took[kind].Merge(&own)
				})
			}
			all.Wait()
			b.StopTimer()
			if e := failed[0].Load() + failed[1].Load(); e > 0 {
				b.ReportMetric(float64(e)/float64(b.N), "errors/op")
			}
			if asked[0].Load() > 0 {
				share := crowd * float64(asked[1].Load()) / float64(asked[0].Load())
				b.ReportMetric(share, "share")
				if p.Name == "weblimit" && b.N > 100*fairCallers && share < 0.5 {
					b.Errorf("callers with keys of their own make %.2f checks for each of the crowd", share)
				}
			}
			b.ReportMetric(micros(took[0].Quantile(0.99)), "crowd-p99-µs")
			b.ReportMetric(micros(took[1].Quantile(0.99)), "own-p99-µs")
		})
	}
}
