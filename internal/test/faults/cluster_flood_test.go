package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// A flood lasts for floodTime at least, and until each honest client has asked floodAsks times, so
// that one denial is not one of a hundred requests on a busy machine.
var (
	floodTime = long.Rounds(0, 700*time.Millisecond)
	floodAsks = long.Rounds(60, 250)
)

// unitsLeft is what a flood leaves of the shared limit.
const unitsLeft = 10

// Attackers that are over their own limits keep asking for a shared limit on another
// master, which has ten units left. Honest clients take at most four at a time and
// give them back. All of their requests must fit.
func TestClusterFloodOverItsOwnLimitDeniesNobodyElse(t *testing.T) {
	t.Parallel()
	for _, flood := range []struct {
		name   string
		stores int
		cache  redisstore.DenialCache
		fresh  bool // every 16 requests use a new key
		last   bool // the attackers' requests name their own limit after the shared one
	}{
		{name: "one process", stores: 1},
		{name: "two processes", stores: 2},
		{name: "without the cache", stores: 1, cache: noDenials()},
		{name: "without the cache, common limit first", stores: 2, cache: noDenials(), last: true},
		{name: "made-up keys", stores: 2, cache: noDenials(), fresh: true},
		{name: "made-up keys, common limit first", stores: 2, cache: noDenials(), fresh: true, last: true},
	} {
		t.Run(flood.name, func(t *testing.T) {
			t.Parallel()
			cluster, prefix := redistest.SharedCluster(t), redistest.Prefix(t)
			own, common := ruleOf(t, atMost(1, "own")), ruleOf(t, atMost(1000, "common"))
			var stores []*redisstore.Store
			for range flood.stores {
				stores = append(stores, newClusterStore(t, cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: flood.cache}))
			}
			key := onePerMaster(t, cluster, prefix)
			all := core.Check{Key: []byte(key[0]), Rule: common, Cost: 1}
			used := all
			used.Cost = common.Burst - unitsLeft
			must.Do(takeChecks(stores[0], used))(t)

			attack := func(s core.Store, mine string) {
				checks := []core.Check{{Key: []byte(mine), Rule: own, Cost: 1}, all}
				if flood.last {
					slices.Reverse(checks)
				}
				results, err := takeChecks(s, checks...)
				switch {
				case err != nil:
					t.Error(err)
				case results[0].Charged: // once for each key: its common unit goes back
					i := slices.IndexFunc(checks, func(c core.Check) bool { return c.Rule == common })
					refundAll(t, s, checks[i:i+1], results[i:i+1])
				case results[0].Cached:
					time.Sleep(time.Millisecond) // a process that never waits takes the processor from the others
				}
			}
			// Two waves of 16 requests of one client each, again and again.
			f := besides(t, 2, func(wave, n int) {
				mine := key[1]
				if flood.fresh {
					mine = fmt.Sprintf("made-up:%d:%d", wave, n)
				}
				var once sync.WaitGroup
				for i := range 16 {
					once.Go(func() { attack(stores[i%len(stores)], mine) })
				}
				once.Wait()
			}, func(i, n int) (charged bool, wait time.Duration) {
				checks := []core.Check{{Key: fmt.Appendf(nil, "honest:%d:%d", i, n), Rule: own, Cost: 1}, all}
				results, err := takeChecks(stores[i%len(stores)], checks...)
				check.OK(t, err)
				charged, wait = results[0].Charged, max(results[0].RetryAfter, results[1].RetryAfter)
				if charged {
					refundAll(t, stores[0], checks, results) // which are not charged any more
				}
				return charged, wait
			}, nil)
			figure(t, "denied in a row", f.most)
			if f.most > 2 {
				t.Errorf("a client was denied %d times in a row", f.most)
			}
			eventually(t, "all that was charged to be given back", func() bool {
				return usedBy(stores[0], common, key[0])[0] == common.Burst-unitsLeft
			})
		})
	}
}

// besides has attackers flood, each again and again, while four honest clients ask for what fits, and tell whether
// they were charged, or how long they were told to wait. A hundredth of them may be denied, and for a moment. Whoever is charged
// at all, and gives back, stands in held: a request did not fit if so many were charged meanwhile as there are units.
func besides(t *testing.T, attackers int, attack func(attacker, n int), ask func(client, n int) (charged bool, wait time.Duration), held *charges) (f flood) {
	t.Helper()
	var busy, honest sync.WaitGroup
	var over atomic.Bool
	var attacks atomic.Int64
	for i := range attackers {
		busy.Go(func() {
			for n := 0; !over.Load(); n++ {
				attack(i, n)
				attacks.Add(1)
			}
		})
	}
	var mu sync.Mutex
	var denied []denial
	for i := range 4 {
		honest.Go(func() {
			row, first := 0, time.Time{}
			for n, end := 0, time.Now().Add(floodTime); n < floodAsks || time.Now().Before(end); n++ {
				start := time.Now()
				charged, wait := ask(i, n)
				mu.Lock()
				f.took = append(f.took, time.Since(start))
				if row++; charged {
					row = 0
				} else {
					if row == 1 {
						first = start
					}
					denied = append(denied, denial{first, time.Now(), wait})
					f.most = max(f.most, row)
				}
				mu.Unlock()
			}
		})
	}
	honest.Wait()
	over.Store(true)
	busy.Wait()
	for _, d := range denied {
		if held.between(d.first, d.ended) < unitsLeft {
			f.denied++
			f.wait = max(f.wait, d.wait)
		}
	}
	figure(t, "times that attackers asked, or several at once", attacks.Load())
	figure(t, "requests that fit", len(f.took))
	figure(t, "of these denied", f.denied)
	figure(t, "p50 of those, given back", quantile(f.took, 0.5))
	figure(t, "longest Retry-After", f.wait)
	if f.denied*100 >= len(f.took) {
		t.Errorf("%d of %d requests that fit were denied", f.denied, len(f.took))
	}
	if f.wait > 10*time.Millisecond {
		t.Errorf("a request that fits was told to wait for %v", f.wait)
	}
	return f
}

// flood is what honest clients saw.
type flood struct {
	took         []time.Duration
	denied, most int           // of their requests, and of a client's in a row
	wait         time.Duration // that one was told to wait, at most
}

// denial is of a request that an honest client made.
type denial struct {
	first, ended time.Time // first is when the first of those in a row began: the cache may repeat its answer
	wait         time.Duration
}

// charges are those of requests that were granted, and gave back. A nil one has none.
type charges struct {
	mu  sync.Mutex
	all []charge // Guarded by mu.
}

// charge was held from some time after the first to some time before the second.
type charge struct{ taken, refunded time.Time }

// add notes a request that began at a time, was charged, and has just given back.
func (c *charges) add(taken time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, charge{taken, time.Now()})
}

// between returns how many can have been charged between two times, at most.
func (c *charges) between(from, to time.Time) (n int) {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, held := range c.all {
		if held.taken.Before(to) && held.refunded.After(from) {
			n++
		}
	}
	return n
}

// takeChecks has a store decide checks with all the time that it needs.
func takeChecks(s core.Store, checks ...core.Check) ([]core.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results := make([]core.Result, len(checks))
	return results, s.Take(ctx, checks, results)
}

// refundAll gives back what a store has charged.
func refundAll(t *testing.T, s core.Store, checks []core.Check, results []core.Result) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	check.OK(t, s.Refund(ctx, checks, results))
}
