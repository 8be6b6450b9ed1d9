package memstore_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/testclock"
)

// storeAt returns a store that decides at the times of a test's clock.
func storeAt(clock *storetest.Clock, config ...memstore.Config) *memstore.Store {
	m := memstore.New(config...)
	testclock.Set(m, clock.Micros)
	return m
}

// small returns a store of few buckets at a clock that stands still.
func small(t *testing.T, buckets int) (*memstore.Store, *storetest.Clock) {
	t.Helper()
	clock := storetest.NewClock()
	return storeAt(clock, memstore.Config{MaxBuckets: buckets}), clock
}

func mustRule(t testing.TB, l core.Limit) *core.Rule {
	t.Helper()
	r := must.Get(l.Rule())(t)
	return &r
}

func take(t testing.TB, m *memstore.Store, key string, rule *core.Rule, cost int64) core.Result {
	t.Helper()
	results := make([]core.Result, 1)
	must.OK(t, m.Take(t.Context(), []core.Check{{Key: []byte(key), Rule: rule, Cost: cost}}, results))
	return results[0]
}

func TestKeyRotationLeavesMemoryBounded(t *testing.T) {
	t.Parallel()
	const buckets = 1 << 12
	m, _ := small(t, buckets)
	rules := []*core.Rule{mustRule(t, core.PerHour(10).Named("a")), mustRule(t, core.PerHour(10).SlidingWindow().Named("b"))}
	for i := range 8 * buckets {
		take(t, m, fmt.Sprint("key", i), rules[i%2], 1)
	}
	if n := m.Len(); n > buckets || n < buckets*3/4 {
		t.Errorf("%d buckets after %d keys, want nearly and at most %d", n, 8*buckets, buckets)
	}
}

func TestLogsCountForTheirMemory(t *testing.T) {
	t.Parallel()
	m, clock := small(t, 1<<10)
	rule := mustRule(t, core.PerHour(400).SlidingLog())
	for i := range 200 {
		for range 400 {
			take(t, m, fmt.Sprint("key", i%20), rule, 1)
			clock.Advance(time.Microsecond)
		}
	}
	if w := m.Weight(); w > 1<<10 {
		t.Errorf("buckets and logs weigh %d, the bound is %d", w, 1<<10)
	}
	clock.Advance(time.Hour)
	for i := range 20 {
		if got := take(t, m, fmt.Sprint("key", i), rule, 1); got.Remaining != 399 {
			t.Errorf("an hour later %d of 400 remain", got.Remaining)
		}
	}
}

// However many keys an attacker makes up, its blocked key stays blocked.
func TestThrowAwayKeysDoNotPushOutALimitedClient(t *testing.T) {
	t.Parallel()
	for name, limit := range storetest.Algorithms(10, 24*time.Hour) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := small(t, 1<<10)
			rule := mustRule(t, limit)
			var blocked []string
			for i := range 100 {
				key := fmt.Sprint("blocked", i)
				blocked = append(blocked, key)
				take(t, m, key, rule, 10)
			}
			for i := range 8 << 10 {
				take(t, m, fmt.Sprint("throwaway", i), rule, 1+int64(i%9))
			}
			for _, key := range blocked {
				if take(t, m, key, rule, 1).Allowed {
					t.Errorf("%s was pushed out and got a fresh budget", key)
				}
			}
		})
	}
}

func TestFullBucketsGoFirst(t *testing.T) {
	t.Parallel()
	m, clock := small(t, 64)
	second, day := mustRule(t, core.PerSecond(10).Named("short")), mustRule(t, core.PerDay(10).Named("long"))
	for i := range 32 {
		take(t, m, fmt.Sprint("short", i), second, 10)
		take(t, m, fmt.Sprint("long", i), day, 1)
	}
	clock.Advance(time.Second) // all of short are full again
	for i := range 32 {
		take(t, m, fmt.Sprint("new", i), day, 1)
	}
	for i := range 32 {
		if got := take(t, m, fmt.Sprint("long", i), day, 0); got.Remaining != 9 {
			t.Errorf("long%d was evicted while there were full buckets", i)
		}
	}
}

// A bucket that looked harmless when victims were sought is none once it is used.
func TestABucketThatIsUsedAgainIsNotEvicted(t *testing.T) {
	t.Parallel()
	m, _ := small(t, 64)
	rule := mustRule(t, core.PerDay(10))
	for i := range 65 { // the last one starts a search
		take(t, m, fmt.Sprint("old", i), rule, 1)
	}
	var used []string
	for i := range 65 {
		if key := fmt.Sprint("old", i); take(t, m, key, rule, 0).Remaining == 9 && len(used) < 20 {
			used = append(used, key)
			take(t, m, key, rule, 9)
		}
	}
	for i := range 200 {
		take(t, m, fmt.Sprint("new", i), rule, 1)
	}
	for _, key := range used {
		if take(t, m, key, rule, 1).Allowed {
			t.Errorf("%s was evicted after it was used up", key)
		}
	}
}

func TestOfLimitedClientsTheNearestToRecoveryIsEvicted(t *testing.T) {
	t.Parallel()
	m, clock := small(t, 64)
	rule := mustRule(t, core.PerDay(1))
	for i := range 64 {
		take(t, m, fmt.Sprint("key", i), rule, 1)
		clock.Advance(time.Second)
	}
	take(t, m, "one more", rule, 1)
	for i := range 64 {
		fresh := take(t, m, fmt.Sprint("key", i), rule, 0).Remaining == 1
		if fresh != (i == 0) {
			t.Errorf("key %d evicted: %v; only the oldest should be", i, fresh)
		}
	}
}

// A search finds many limited clients at once, when there is nobody else. Who comes
// later and has something left is a better victim than they.
func TestANewcomerGoesBeforeTheLimited(t *testing.T) {
	t.Parallel()
	m, clock := small(t, 128)
	rule := mustRule(t, core.PerDay(10))
	for i := range 128 {
		take(t, m, fmt.Sprint("limited", i), rule, 10)
		clock.Advance(time.Second)
	}
	for i := range 500 {
		take(t, m, fmt.Sprint("newcomer", i), rule, 1)
	}
	for i := range 128 {
		if got := take(t, m, fmt.Sprint("limited", i), rule, 0); (got.Remaining > 0) != (i == 0) {
			t.Errorf("client %d, limited before, has %d remaining; only the oldest made room, for the first newcomer", i, got.Remaining)
		}
	}
}

func TestOnlyLimitedClientsAreEvictedOldestFirst(t *testing.T) {
	t.Parallel()
	m, clock := small(t, 1<<10)
	rule := mustRule(t, core.PerDay(1))
	for i := range 3 << 10 {
		take(t, m, fmt.Sprint("key", i), rule, 1)
		clock.Advance(time.Second)
	}
	for i := range 3 << 10 {
		if got := take(t, m, fmt.Sprint("key", i), rule, 0); (got.Remaining == 0) != (i >= 2<<10) {
			t.Fatalf("key %d has %d remaining; the last %d keys should be known", i, got.Remaining, 1<<10)
		}
	}
}

// A table remembers bursts roughly. That must not make a client that has nothing
// left look as if it had something.
func TestLimitedUnderALargeBurst(t *testing.T) {
	t.Parallel()
	for _, burst := range []int64{1, 1<<18 + 1, 1<<19 - 1, 1<<19 + 1, 1<<24 + 1, 1<<25 - 1, 1<<40 - 1, 1<<50 - 1} {
		m, _ := small(t, 64)
		big, small := mustRule(t, core.PerDay(burst).FixedWindow().Named("big")), mustRule(t, core.PerDay(10).Named("small"))
		take(t, m, "limited", big, burst)
		for i := range 1000 {
			take(t, m, fmt.Sprint("new", i), small, 9)
		}
		if take(t, m, "limited", big, 1).Allowed {
			t.Errorf("burst %d: the limited client was pushed out", burst)
		}
	}
}

func TestLimitsThatExpireMakeRoomWithoutEviction(t *testing.T) {
	t.Parallel()
	m, clock := small(t, 1<<10)
	rule := mustRule(t, core.PerSecond(5))
	for range 50 {
		for i := range 500 {
			take(t, m, fmt.Sprint("key", i), rule, 5)
		}
		clock.Advance(time.Second)
	}
	if n := m.Len(); n > 1<<10 {
		t.Errorf("%d buckets", n)
	}
}

func TestEvictionUnderParallelUse(t *testing.T) {
	t.Parallel()
	m := storeAt(storetest.NewClock(), memstore.Config{MaxBuckets: 256})
	rules := []*core.Rule{mustRule(t, core.PerDay(3).Named("a")), mustRule(t, core.PerDay(3).SlidingLog().Named("b"))}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range long.Rounds(600, 3000) {
				checks := []core.Check{
					{Key: fmt.Append(nil, "k", i*(g+1)%700), Rule: rules[0], Cost: 1},
					{Key: fmt.Append(nil, "k", i*(g+3)%900), Rule: rules[1], Cost: 1},
				}
				results := make([]core.Result, 2)
				check.OK(t, m.Take(t.Context(), checks, results))
				if i%5 == 0 {
					_ = m.Refund(t.Context(), checks, results)
				}
				if i%7 == 0 {
					_ = m.Reset(t.Context(), checks)
				}
			}
		})
	}
	all.Wait()
	if n := m.Weight(); n > 256 {
		t.Errorf("weight %d of 256", n)
	}
}

func TestMemoryRunsNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	stores := make([]*memstore.Store, 100)
	for i := range stores {
		stores[i] = memstore.New()
		take(t, stores[i], "k", mustRule(t, core.PerHour(1)), 1)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines for %d stores", after-before, len(stores))
	}
	runtime.KeepAlive(stores)
}
