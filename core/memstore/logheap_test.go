package memstore_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
)

// logFiller takes from a store under rules of logs, and measures the heap.
type logFiller struct {
	*testing.T
	store  *memstore.Store
	clock  interface{ Advance(time.Duration) }
	before int64
	most   int64
	key    [8]byte
	checks []core.Check
	next   uint64
}

func newLogFiller(t *testing.T, buckets int) *logFiller {
	t.Helper()
	f := &logFiller{T: t, before: heap(), most: int64(buckets) * 69}
	f.store, f.clock = small(t, buckets)
	f.checks = []core.Check{{Key: f.key[:], Cost: 1}}
	return f
}

// fill has keys of their own come, each of which takes so many units at so many times.
func (f *logFiller) fill(rule *core.Rule, keys, units int, pause time.Duration) {
	f.Helper()
	f.next++
	results := make([]core.Result, 1)
	f.checks[0].Rule = rule
	for range units {
		for i := range keys {
			binary.LittleEndian.PutUint64(f.key[:], f.next<<32|uint64(i))
			must.OK(f, f.store.Take(context.Background(), f.checks, results))
		}
		f.clock.Advance(pause)
	}
}

func (f *logFiller) measure(when string) {
	f.Helper()
	used := heap() - f.before
	runtime.KeepAlive(f.store)
	if used > f.most {
		f.Errorf("%s: %d bytes on the heap, %.1f a bucket of MaxBuckets; 69 are promised", when, used, float64(used)*69/float64(f.most))
	} else {
		f.Logf("%s: %.1f bytes a bucket", when, float64(used)*69/float64(f.most))
	}
}

// Trap: slices that keep their capacity, uncounted. Not parallel: it measures the heap.
func TestLogsKeepNoMoreMemoryThanTheyCountFor(t *testing.T) {
	race.Skip(t)
	buckets := long.Rounds(1<<14, 1<<16)
	logs := buckets / 1000 // of 4,000 entries: they take it all
	for _, algorithm := range []struct {
		name string
		make func(n int64) core.Limit
	}{
		{"sliding log", func(n int64) core.Limit { return core.Per(n, time.Minute).SlidingLog() }},
		{"slots", func(n int64) core.Limit { return core.Concurrent(n).Lease(time.Minute) }},
	} {
		large, small := mustRule(t, algorithm.make(4000)), mustRule(t, algorithm.make(4))
		plain := mustRule(t, core.PerMinute(10))
		for _, attack := range []struct {
			name string
			run  func(f *logFiller)
		}{
			{"long logs, of which a moment later an entry is left", func(f *logFiller) {
				for range 4 {
					f.fill(large, logs, 4000, time.Millisecond)
					f.measure("filled")
					f.next-- // the same keys
					f.clock.Advance(59 * time.Second)
					f.fill(large, logs, 1, 0)
				}
			}},
			{"ever new long logs, of which an entry is left", func(f *logFiller) {
				last := f.next
				for range 6 {
					f.fill(large, logs, 4000, time.Millisecond)
					for range 2 { // one entry each, and what came before expires
						f.clock.Advance(29 * time.Second)
						newest := f.next
						for f.next = last; f.next < newest; {
							f.fill(large, logs, 1, 0)
						}
					}
					f.clock.Advance(5 * time.Second)
					newest := f.next
					for f.next = last; f.next < newest; {
						f.fill(large, logs, 1, 0)
					}
					f.measure("a round")
				}
			}},
			{"short logs, then long ones, then short ones", func(f *logFiller) {
				f.fill(small, buckets, 1, 0)
				f.measure("short")
				f.clock.Advance(2 * time.Minute)
				f.fill(large, logs, 4000, time.Millisecond)
				f.measure("long")
				f.clock.Advance(2 * time.Minute)
				f.fill(small, buckets, 4, time.Microsecond)
			}},
			{"buckets, then logs", func(f *logFiller) {
				f.fill(plain, buckets, 1, 0)
				f.measure("buckets")
				f.clock.Advance(2 * time.Minute)
				f.fill(large, logs, 4000, time.Millisecond)
			}},
			{"logs, then buckets", func(f *logFiller) {
				f.fill(small, buckets, 2, time.Microsecond)
				f.measure("logs")
				f.clock.Advance(2 * time.Minute)
				f.fill(plain, 2*buckets, 1, 0)
			}},
			{"logs that grow under a flood of buckets", func(f *logFiller) {
				for range 20 {
					f.fill(large, logs/2, 400, time.Millisecond)
					f.next--
					f.fill(plain, buckets/4, 1, 0)
				}
			}},
		} {
			t.Run(algorithm.name+": "+attack.name, func(t *testing.T) {
				f := newLogFiller(t, buckets)
				attack.run(f)
				f.measure("at last")
			})
		}
	}
}
