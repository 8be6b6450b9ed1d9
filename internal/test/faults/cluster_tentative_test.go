package faults_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// A shared limit is used up. A client asks many times at once, through two processes,
// and has used nothing of its own limit of one. Its requests charge that limit
// tentatively and give back, so no answer may say that it is used up for long.
func TestClusterCommonLimitThatDeniesUsesNobodysOwn(t *testing.T) {
	t.Parallel()
	cluster, prefix := redistest.SharedCluster(t), redistest.Prefix(t)
	stores := []*redisstore.Store{
		newClusterStore(t, cluster.Client(t), redisstore.Config{Prefix: prefix}),
		newClusterStore(t, cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()}),
	}
	own, common := ruleOf(t, atMost(1, "own")), ruleOf(t, atMost(1, "common"))
	keys := onePerMaster(t, cluster, prefix)
	if _, err := takeWithin(stores[0], patience, common, keys[0]); err != nil { // all that is left
		t.Fatal(err)
	}
	var asked, denied atomic.Int64
	longest := time.Duration(0)
	var mu sync.Mutex
	for client := range long.Rounds(10, 40) {
		atOnce(32, func(i int) {
			checks := []core.Check{
				{Key: fmt.Append(nil, "client:", client), Rule: own, Cost: 1},
				{Key: []byte(keys[0]), Rule: common, Cost: 1},
			}
			results, err := takeChecks(stores[i%2], checks...)
			asked.Add(1)
			if err != nil || results[0].Charged || results[1].Charged {
				t.Errorf("%+v, %v; want a denial", results, err)
			}
			if !results[0].Allowed {
				denied.Add(1)
				mu.Lock()
				longest = max(longest, results[0].RetryAfter)
				mu.Unlock()
			}
		})
		if used := usedBy(stores[0], own, fmt.Sprint("client:", client))[0]; used != 0 {
			t.Fatalf("client %d has used %d units of its own", client, used)
		}
	}
	figure(t, "requests denied by the common limit", asked.Load())
	figure(t, "of these told that their own is used as well", denied.Load())
	figure(t, "longest Retry-After of those", longest)
	if longest > 10*time.Millisecond {
		t.Errorf("a client that has used nothing was told to wait for %v", longest)
	}
}

// Clients of a tenant flood a route that has no room, or little every ten
// milliseconds. The tenant has ten units left, which its other clients use on another
// route. The flood's charges to the tenant are given back, so these requests must fit,
// unless those that the little room is for hold all units: a machine can take longer for one than for ten to come.
func TestClusterFloodOfOneRouteDeniesNobodyElsewhere(t *testing.T) {
	t.Parallel()
	for name, refill := range map[string]core.Limit{
		"no room":       atMost(1, "route"),
		"a little room": core.PerSecond(100).Burst(1).Named("route"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, prefix := redistest.SharedCluster(t), redistest.Prefix(t)
			user, tenant, route := ruleOf(t, atMost(1_000_000, "user")), ruleOf(t, atMost(1000, "tenant")), ruleOf(t, refill)
			quiet := ruleOf(t, atMost(1_000_000, "quiet"))
			keys := onePerMaster(t, cluster, prefix)
			stores := []*redisstore.Store{
				newClusterStore(t, cluster.Client(t), redisstore.Config{Prefix: prefix}),
				newClusterStore(t, cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()}),
			}
			var held charges
			ask := func(s core.Store, client string, last *core.Rule) (charged bool, wait time.Duration) {
				checks := []core.Check{
					{Key: []byte(client), Rule: user, Cost: 1},
					{Key: []byte(keys[0]), Rule: tenant, Cost: 1},
					{Key: []byte(last.Name), Rule: last, Cost: 1},
				}
				began := time.Now()
				results, err := takeChecks(s, checks...)
				if err != nil {
					t.Error(err)
					return false, 0
				}
				charged, wait = results[0].Charged, results[1].RetryAfter
				if charged {
					refundAll(t, s, checks[:2], results[:2]) // or the tenant's units would soon be used up
					held.add(began)
				}
				return charged, wait
			}
			for i := range 64 { // so that the store learns: there are many clients, and few tenants and routes
				ask(stores[i%2], fmt.Sprint("known:", i), quiet)
			}
			ask(stores[0], "known:0", route)
			used := core.Check{Key: []byte(keys[0]), Rule: tenant, Cost: tenant.Burst - unitsLeft}
			must.Do(takeChecks(stores[0], used))(t)
			besides(t, 32, func(i, _ int) {
				ask(stores[i%2], fmt.Sprint("flood:", i), route)
				time.Sleep(100 * time.Microsecond) // a process that never waits takes the processor from the others
			}, func(i, _ int) (bool, time.Duration) { return ask(stores[i%2], fmt.Sprint("honest:", i), quiet) }, &held)
		})
	}
}
