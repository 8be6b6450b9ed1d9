package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// The master of a hot slot dies under load, or freezes. Its keys follow their outage
// policy, within the deadline, until a replica is promoted. The keys of other masters
// are not affected.
func TestClusterMasterIsLostUnderLoad(t *testing.T) {
	t.Parallel()
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, prefix := redistest.StartClusterOf(t, 3, 1), redistest.Prefix(t)
			cluster.DownAfter(t, never)
			store := redisstore.New(cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
			keys := keysOn(t, cluster, prefix, 4) // one for each policy, and a new one
			var loads []*policyLoad
			for _, keys := range keys {
				loads = append(loads, newPolicyLoad(t, store, time.Second, keys)) // the other masters keep to it on a busy machine, most of the time
			}
			slot := slotOf(t, cluster, prefix, keys[0][0])
			master, lost := cluster.MasterOf(t, slot), time.Now()
			lose(t, master)
			loads[0].replaced(t, cluster, lost, func() { cluster.AwaitFailover(t, slot, master) })
			loads[0].finish(t, keys[0][3])
			byRedis, others := 0, 0
			for _, l := range loads[1:] {
				asks := l.stop()
				wantOnTime(t, asks, l.deadline)
				for i := range asks {
					if asks[i].byRedis() {
						byRedis++
					} else {
						others++
					}
				}
			}
			figure(t, "decisions of other masters, and of them not by Redis", fmt.Sprint(byRedis, ", ", others))
			if others > byRedis/10 {
				t.Errorf("of the decisions of other masters %d were Redis's and %d were not", byRedis, others)
			}
		})
	}
}

// During an outage a client gets at most the quota from Redis, its share from each
// process, and what replication lost.
func TestClusterFailoverGrantsNoMoreThanItsBound(t *testing.T) {
	t.Parallel()
	const quota, replicas, deadline = 200, 4, 200 * time.Millisecond
	cluster, prefix := redistest.StartClusterOf(t, 3, 1), redistest.Prefix(t)
	cluster.DownAfter(t, never)
	tested := redisstore.New(cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	events := listen(tested)
	l := newLimiter(t, core.Config{Store: tested, Timeout: deadline, Replicas: replicas, Limits: []core.Limit{atMost(quota, "bound")}})
	key := keysOn(t, cluster, prefix, 1)[0][0]
	slot := slotOf(t, cluster, prefix, key)
	master := cluster.MasterOf(t, slot)

	admitted := 0
	for admitted < quota/2 {
		if a := decide(l, key); a.allowed {
			admitted++
		}
	}
	load := newTraffic()
	load.send(l, key, 8, 5*time.Millisecond)
	master.Kill()
	killed := time.Now()
	eventually(t, "the process to decide", func() bool {
		return load.count(key, killed, func(a *ask) bool { return a.reason == core.ReasonOutageLocal }) > 0
	})
	cluster.DownAfter(t, soonDead)
	cluster.AwaitFailover(t, slot, master)
	cluster.DownAfter(t, never)
	eventually(t, "the outage to be over", func() bool { return events.count(store.EventOutageEnded) > 0 })
	over := time.Now()
	eventually(t, "denials of Redis", func() bool {
		return load.count(key, over, func(a *ask) bool { return a.byRedis() && !a.allowed }) > 100
	})
	local, redis := 0, admitted
	for _, a := range load.stop() {
		switch {
		case a.allowed && a.byRedis():
			redis++
		case a.allowed:
			local++
		}
	}
	const share = quota / replicas
	if local > share {
		t.Errorf("%d were admitted by a share of %d", local, share)
	}
	if redis > 2*quota { // all of the first half may be lost, which asynchronous replication allows
		t.Errorf("Redis admitted %d of %d", redis, quota)
	}
	figure(t, "admitted by Redis and by one process of 4, of a quota of 200", fmt.Sprint(redis, " + ", local))
}
