package memstore_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

// bytesPerBucket is what MaxBuckets promises, and a little for shards and lists.
const bytesPerBucket = 60

// Not parallel: it measures the heap of the process.
func TestTenMillionKeysNeitherGrowMemoryNorFreeABlockedClient(t *testing.T) {
	race.Skip(t)
	const buckets = 1 << 16
	rounds := long.Rounds(12, 100)
	before := heap()
	m, _ := small(t, buckets)
	rule := mustRule(t, core.PerDay(10))
	blocked := []string{"blocked 0", "blocked 1", "blocked 2"}
	for _, key := range blocked {
		take(t, m, key, rule, 10)
	}
	key := make([]byte, 8)
	checks, results := []core.Check{{Key: key, Rule: rule, Cost: 1}}, make([]core.Result, 1)
	for round := range rounds {
		for i := range 100_000 {
			binary.LittleEndian.PutUint64(key, uint64(round*100_000+i))
			if err := m.Take(context.Background(), checks, results); err != nil || !results[0].Allowed {
				t.Fatalf("a new key got %+v and error %v", results[0], err)
			}
		}
		for _, key := range blocked {
			if take(t, m, key, rule, 1).Allowed {
				t.Fatalf("%s got a fresh budget after %d keys", key, (round+1)*100_000)
			}
		}
		if used := heap() - before; used > buckets*bytesPerBucket {
			t.Fatalf("%d bytes on the heap after %d keys, the bound is %d", used, (round+1)*100_000, buckets*bytesPerBucket)
		}
	}
	if n := m.Len(); n > buckets || n < buckets*9/10 {
		t.Errorf("%d buckets, want nearly and at most %d", n, buckets)
	}
}

// heap returns the bytes in use, those that nobody refers to any more left out.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// However many keys there are, a table is never much larger than they ask for.
func TestBytesPerKey(t *testing.T) {
	race.Skip(t)
	keys := long.Rounds(400_000, 1_000_000)
	rule := mustRule(t, core.PerDay(10))
	m := storeAt(storetest.NewClock(), memstore.Config{MaxBuckets: 4 << 20})
	before, key := heap(), make([]byte, 8)
	checks, results := []core.Check{{Key: key, Rule: rule, Cost: 1}}, make([]core.Result, 1)
	for n := 1; n <= keys; n++ {
		binary.LittleEndian.PutUint64(key, uint64(n))
		must.OK(t, m.Take(context.Background(), checks, results))
		if n%200_000 == 0 {
			per := float64(heap()-before) / float64(n)
			t.Logf("%d keys: %.1f bytes each", n, per)
			if per > 70 {
				t.Errorf("%d keys take %.1f bytes each, want at most 70", n, per)
			}
		}
	}
	runtime.KeepAlive(m)
}

// What docs/choose/algorithms.md says of the memory of a key under each algorithm: only logs take
// more than their slot of the table.
func TestBytesPerKeyOfEachAlgorithm(t *testing.T) {
	race.Skip(t)
	const keys = 200_000 // fewer would measure the empty store
	for _, c := range []struct {
		name        string
		limit       core.Limit
		requests    int
		least, most float64
	}{
		{"a fixed window", core.PerDay(10).FixedWindow(), 10, 50, 72},
		{"a sliding window", core.PerDay(10).SlidingWindow(), 10, 50, 72},
		{"a calendar window", core.PerMonth(10, time.UTC), 10, 50, 72},
		{"a sliding log of one request", core.PerDay(10).SlidingLog(), 1, 110, 130},
		{"a sliding log of ten requests", core.PerDay(10).SlidingLog(), 10, 230, 380},
		{"a concurrency limit, one running", core.Concurrent(10).Lease(time.Hour), 1, 110, 130},
	} {
		rule, clock := mustRule(t, c.limit), storetest.NewClock()
		m := storeAt(clock, memstore.Config{MaxBuckets: 4 << 20})
		before, key := heap(), make([]byte, 8)
		checks, results := []core.Check{{Key: key, Rule: rule, Cost: 1}}, make([]core.Result, 1)
		for range c.requests {
			clock.Advance(time.Millisecond)
			for n := range keys {
				binary.LittleEndian.PutUint64(key, uint64(n))
				must.OK(t, m.Take(context.Background(), checks, results))
			}
		}
		per := float64(heap()-before) / keys
		t.Logf("%s: %.1f bytes a key", c.name, per)
		if per > c.most || per < c.least && strconv.IntSize == 64 { // pointers of 32 bits take less
			t.Errorf("%s takes %.1f bytes a key, want %.0f to %.0f", c.name, per, c.least, c.most)
		}
		runtime.KeepAlive(m)
	}
}
