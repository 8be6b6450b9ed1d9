package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// onePerMaster returns a key on each master.
func onePerMaster(t *testing.T, c *redistest.Cluster, prefix string) []string {
	t.Helper()
	var keys []string
	for _, of := range keysOn(t, c, prefix, 1) {
		keys = append(keys, of[0])
	}
	return keys
}

// Limits are on three masters, and the third denies. What the first two charged is
// given back, and a peek meanwhile sees no more than what is under way.
func TestClusterThirdOfThreeSlotsDenies(t *testing.T) {
	t.Parallel()
	cluster, prefix := redistest.SharedCluster(t), redistest.Prefix(t)
	store := newClusterStore(t, cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	keys := onePerMaster(t, cluster, prefix)
	const workers, each, quota = 16, 60, 100
	wide, narrow := ruleOf(t, atMost(100_000, "wide")), ruleOf(t, atMost(quota, "narrow"))
	checks := []core.Check{
		{Key: []byte(keys[0]), Rule: wide, Cost: 1},
		{Key: []byte(keys[1]), Rule: wide, Cost: 1},
		{Key: []byte(keys[2]), Rule: narrow, Cost: 1},
	}
	var admitted, denied, failed atomic.Int64
	var all, observer sync.WaitGroup
	over := make(chan struct{})
	most := int64(0)
	observer.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			// No fewer are admitted at the end of the peek than during it.
			used := slices.Max(usedBy(store, wide, keys[:2]...))
			most = max(most, used-admitted.Load())
		}
	})
	for range workers {
		all.Go(func() {
			for range each {
				results := make([]core.Result, 3)
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				err := store.Take(ctx, checks, results)
				cancel()
				switch {
				case err != nil:
					failed.Add(1)
					t.Error(err)
				case results[0].Charged && results[1].Charged && results[2].Charged:
					admitted.Add(1)
				case results[0].Charged || results[1].Charged || results[2].Charged:
					t.Errorf("charged in part: %+v", results)
				default:
					denied.Add(1)
				}
			}
		})
	}
	all.Wait()
	close(over)
	observer.Wait()
	if admitted.Load() != quota || denied.Load() != workers*each-quota || failed.Load() != 0 {
		t.Errorf("%d admitted, %d denied, %d failed; want %d, %d and 0", admitted.Load(), denied.Load(), failed.Load(), quota, workers*each-quota)
	}
	if used := usedBy(store, wide, keys[:2]...); used[0] != quota || used[1] != quota {
		t.Errorf("%v used on the masters that did not deny, want %d: the rest was to be given back", used, quota)
	}
	if most > workers {
		t.Errorf("an observer saw %d units more charged than were admitted, with %d requests under way", most, workers)
	}
	figure(t, "requests admitted of 960, quota 100", admitted.Load())
	figure(t, "units too many that an observer saw, 16 requests under way", most)
}

// A node does not answer. What the others charged for a request is given back, even if
// the deadline is over by then.
func TestClusterSlotOfADeadNodeHasOthersGiveBack(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartClusterOf(t, 3, 0)
	for _, fault := range []struct {
		name string
		harm func(*testing.T, *redistest.Server)
	}{
		{"frozen", func(t *testing.T, s *redistest.Server) {
			s.Freeze(t)
			t.Cleanup(func() { s.Thaw(t) })
		}},
		{"killed", func(_ *testing.T, s *redistest.Server) { s.Kill() }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			prefix := redistest.Prefix(t)
			store := redisstore.New(cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
			store.OnEvent(func(core.Event) {})
			keys, rule := onePerMaster(t, cluster, prefix), ruleOf(t, atMost(1000, "three"))
			eventually(t, "a first decision", func() bool {
				_, err := takeWithin(store, patience, rule, keys...)
				return err == nil
			})
			before := usedBy(store, rule, keys[:2]...)
			fault.harm(t, cluster.Masters()[2])
			// Enough time for the live nodes to be charged, most of the time, before the dead one's breaker opens.
			const deadline = 500 * time.Millisecond
			requests := long.Rounds(8, 40)
			var slowest, slowestRunning time.Duration
			for range requests {
				start := time.Now()
				results, err := takeWithin(store, deadline, rule, keys...)
				took := time.Since(start)
				slowest, slowestRunning = max(slowest, took), max(slowestRunning, late.less(start, took, deadline))
				if err == nil {
					t.Errorf("decided without a node: %+v", results)
				}
			}
			if slowestRunning > deadline+slack {
				t.Errorf("a request took %v without the time that the process was late, its deadline was after %v", slowestRunning, deadline)
			}
			took := eventually(t, "all to be given back", func() bool {
				return slices.Equal(usedBy(store, rule, keys[:2]...), before)
			})
			figure(t, fmt.Sprintf("slowest of %d requests, deadline %v", requests, deadline), slowest)
			figure(t, "all given back after the last request within", took)
		})
	}
}

// Slots are asked in steps, so that charges are rarely given back: two steps for two
// slots, three for any more. The middle step asks all its slots at once.
func TestClusterSlotsTakeThreeRoundTripsAtMost(t *testing.T) {
	t.Parallel()
	cluster, prefix := redistest.SharedCluster(t), redistest.Prefix(t)
	client, proxies := behindProxies(t, cluster)
	store := newClusterStore(t, client, redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	rule := ruleOf(t, atMost(1000, "slots"))
	keys := slices.Concat(keysOn(t, cluster, prefix, 3)...)
	const delay = 200 * time.Millisecond
	for range 2 { // opens the connections
		must.Do(takeWithin(store, patience, rule, keys...))(t)
	}
	for _, p := range proxies {
		p.Delay(delay)
	}
	for _, c := range []struct {
		slots    int
		from, to time.Duration
	}{
		{1, delay, 2 * delay},
		{2, 2 * delay, 3 * delay},
		{3, 3 * delay, 4 * delay},
		{9, 3 * delay, 4 * delay},
	} {
		best := patience
		for range 50 { // one in time is enough: the machine may be busy during the others
			start := time.Now()
			must.Do(takeWithin(store, patience, rule, keys[:c.slots]...))(t)
			took := time.Since(start)
			if took < c.from {
				t.Errorf("%d slots decided after %v, before all steps had been answered", c.slots, took)
			}
			if best = min(best, took); best < c.to {
				break
			}
		}
		if best >= c.to {
			t.Errorf("%d slots of masters that take %v each took %v", c.slots, delay, best)
		}
		figure(t, fmt.Sprintf("request in %d slots of masters that take 200ms each", c.slots), best)
	}
}

// Checks go to masters, wherever the application's client sends reads.
func TestClusterReplicasNeverAnswerChecks(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	decisions := 0
	for name, options := range map[string]*redis.ClusterOptions{
		"ReadOnly":       {ReadOnly: true},
		"RouteByLatency": {RouteByLatency: true},
		"RouteRandomly":  {RouteRandomly: true},
	} {
		prefix := redistest.Prefix(t)
		store := newClusterStore(t, cluster.ClientWith(t, options), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
		rule := ruleOf(t, atMost(10, "ten"))
		for i := range 100 {
			key := fmt.Sprint("user:", i%20)
			results, err := takeWithin(store, patience, rule, key, "all"+key)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			check.Equal(t, name+": remain", results[0].Remaining, int64(9-i/20))
			usedBy(store, rule, key)
			decisions += 2
		}
	}
	applied := int64(0)
	for _, replica := range cluster.Replicas() {
		stats := replica.Commandstats(t)
		for _, command := range []string{"evalsha", "eval", "get"} {
			if n := stats[command].Calls; n != 0 {
				t.Errorf("a replica ran %s %d times", command, n)
			}
		}
		applied += stats["set"].Calls + stats["psetex"].Calls
	}
	eventually(t, "replicas to apply what masters decided", func() bool {
		for _, replica := range cluster.Replicas() {
			stats := replica.Commandstats(t)
			applied += stats["set"].Calls + stats["psetex"].Calls
		}
		return applied > 0
	})
	figure(t, fmt.Sprintf("scripts run by replicas in %d decisions", decisions), 0)
}
