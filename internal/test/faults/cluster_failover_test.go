package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
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
			loseMaster(t, lose)
		})
	}
}

// losses are the ways to lose a server.
var losses = map[string]func(*testing.T, *redistest.Server){
	"killed": func(_ *testing.T, s *redistest.Server) { s.Kill() },
	"frozen": func(t *testing.T, s *redistest.Server) { s.Freeze(t) },
}

// policies are the outage policies with the reason of their decisions.
var policies = map[core.Outage]core.Reason{
	core.Local: core.ReasonOutageLocal,
	core.Allow: core.ReasonOutageAllowed,
	core.Deny:  core.ReasonOutageDenied,
}

func loseMaster(t *testing.T, lose func(*testing.T, *redistest.Server)) {
	const (
		quota    = 1_000_000
		deadline = time.Second // the other masters keep to it on a busy machine, most of the time
	)
	cluster, prefix := redistest.StartClusterOf(t, 3, 1), redistest.Prefix(t)
	cluster.DownAfter(t, never)
	store := redisstore.New(cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	events := listen(store)
	keys := keysOn(t, cluster, prefix, 4)
	hot := keys[0] // one for each policy, and a new one
	slot := slotOf(t, cluster, prefix, hot[0])
	master := cluster.MasterOf(t, slot)

	patient, reasons := map[string]*core.Limiter{}, map[string]core.Reason{}
	load := newTraffic()
	for policy, reason := range policies {
		config := core.Config{
			Store: store, Timeout: deadline, Replicas: 4,
			Limits: []core.Limit{atMost(quota, fmt.Sprint("policy", policy)).OnOutage(policy)},
		}
		l := newLimiter(t, config)
		config.Timeout = patience
		asker := newLimiter(t, config)
		for i := range keys {
			key := keys[i][policy]
			patient[key], reasons[key] = asker, reason
			load.send(l, key, 3, 10*time.Millisecond)
		}
	}
	ofRedis := func(since time.Time, keys []string) func() bool {
		return func() bool {
			for _, key := range keys[:len(policies)] {
				if load.count(key, since, (*ask).byRedis) < 20 {
					return false
				}
			}
			return true
		}
	}
	for i := range keys {
		eventually(t, "load", ofRedis(time.Now(), keys[i]))
	}
	lost := time.Now()
	lose(t, master)
	eventually(t, "the policies to decide", func() bool {
		for _, key := range hot[:len(policies)] {
			if load.count(key, lost, func(a *ask) bool { return a.reason == reasons[key] }) < 20 {
				return false
			}
		}
		return true
	})
	cluster.DownAfter(t, soonDead)
	cluster.AwaitFailover(t, slot, master)
	cluster.DownAfter(t, never)
	promoted := time.Now()
	back := eventually(t, "decisions of Redis", func() bool { return ofRedis(promoted, hot)() })
	eventually(t, "the outage to be over", func() bool { return events.count(core.EventOutageEnded) > 0 })
	calm := time.Now()
	eventually(t, "more decisions", ofRedis(calm, hot))
	asks := load.stop()
	wantOnTime(t, asks, deadline)

	others, othersOut, out := 0, 0, 0
	charged := map[string]int64{} // as Redis said
	unknown := map[string]int64{} // not known to be charged
	for i := range asks {
		a := &asks[i]
		switch isHot := master == ownerOf(keys, a.key, cluster); {
		case a.byRedis():
			charged[a.key]++
			if !isHot {
				others++
			}
		case isHot:
			out++
			unknown[a.key]++
			if a.reason != reasons[a.key] || a.allowed != (a.reason != core.ReasonOutageDenied) {
				t.Errorf("%s was decided %v, allowed %v, want %v", a.key, a.reason, a.allowed, reasons[a.key])
			}
		default:
			othersOut++
		}
	}
	if othersOut > others/10 {
		t.Errorf("of the decisions of other masters %d were Redis's and %d were not", others, othersOut)
	}
	// Only Redis charged Deny's key. So what Redis has counted differs from what it has
	// answered only by what replication lost, or by answers that were lost.
	key := hot[core.Deny]
	lostCharges := charged[key] - (quota - remaining(t, patient[key], key))
	if lostCharges < -unknown[key] || lostCharges > charged[key] {
		t.Errorf("of %d charges %d are lost", charged[key], lostCharges)
	}
	figure(t, "decisions by policy in the outage, none but the lost master's keys", out)
	figure(t, "decisions of other masters, and of them not by Redis", fmt.Sprint(others, ", ", othersOut))
	figure(t, "promotion after the loss", promoted.Sub(lost))
	figure(t, "all policies' keys decided by Redis after promotion within", back)
	figure(t, "charges that the replica did not have, of those answered", fmt.Sprint(lostCharges, " of ", charged[key]))

	// Exact again, on the new master of that slot.
	exact := newPatient(t, store, atMost(500, "exact"))
	check.Equal(t, "of a quota of 500 admitted after the failover", hammerKey(t, exact, hot[3], 500), 500)
}

// ownerOf returns the node that was the master of a key at the start.
func ownerOf(keys [][]string, key string, c *redistest.Cluster) *redistest.Server {
	for i := range keys {
		for _, k := range keys[i] {
			if k == key {
				return c.Masters()[i]
			}
		}
	}
	return nil
}

// During an outage a client gets at most the quota from Redis, its share from each
// process, and what replication lost.
func TestClusterFailoverGrantsNoMoreThanItsBound(t *testing.T) {
	t.Parallel()
	const quota, replicas, deadline = 200, 4, 200 * time.Millisecond
	cluster, prefix := redistest.StartClusterOf(t, 3, 1), redistest.Prefix(t)
	cluster.DownAfter(t, never)
	store := redisstore.New(cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	events := listen(store)
	l := newLimiter(t, core.Config{Store: store, Timeout: deadline, Replicas: replicas, Limits: []core.Limit{atMost(quota, "bound")}})
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
	eventually(t, "the outage to be over", func() bool { return events.count(core.EventOutageEnded) > 0 })
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
