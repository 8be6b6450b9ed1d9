package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// After how long a master is dead that does not answer: while others are to replace it, and otherwise. A master
// that hardly runs would lose its place where no test expects it, and a process that hardly runs would miss an
// outage that others end.
const (
	soonDead = time.Second
	never    = time.Hour
)

// losses are the ways to lose a server.
var losses = map[string]func(*testing.T, *redistest.Server){
	"killed": func(_ *testing.T, s *redistest.Server) { s.Kill() },
	"frozen": func(t *testing.T, s *redistest.Server) { s.Freeze(t) },
}

// policies are the outage actions with the reason of their decisions.
var policies = map[core.OutageAction]core.Reason{
	core.Local: core.ReasonOutageLocal,
	core.Allow: core.ReasonOutageAllowed,
	core.Deny:  core.ReasonOutageDenied,
}

const policyQuota = 1_000_000

// policyLoad is load on keys of one master, each under a limit of another outage action.
type policyLoad struct {
	*traffic
	store    *redisstore.Store
	events   *audience
	deadline time.Duration
	keys     map[core.OutageAction]string
	patient  *core.Limiter // for the limit of core.Deny
}

// newPolicyLoad starts load, and returns when Redis decides on all keys. Those of the policies are the first of keys.
func newPolicyLoad(t *testing.T, s *redisstore.Store, deadline time.Duration, keys []string) *policyLoad {
	t.Helper()
	l := &policyLoad{traffic: newTraffic(), store: s, events: listen(s), deadline: deadline, keys: map[core.OutageAction]string{}}
	for policy := range policies {
		limit := atMost(policyQuota, fmt.Sprint("policy", policy)).OnOutage(policy)
		if policy == core.Deny {
			l.patient = newPatient(t, s, limit)
		}
		l.keys[policy] = keys[policy]
		l.send(newLimiter(t, core.Config{Store: s, Timeout: deadline, Replicas: 4, Limits: []core.Limit{limit}}), keys[policy], 3, 10*time.Millisecond)
	}
	eventually(t, "load", l.ofRedis(time.Now()))
	return l
}

// each returns a function that reports whether there were decisions of each policy's key since then such as wanted.
func (l *policyLoad) each(since time.Time, wanted func(core.OutageAction, *ask) bool) func() bool {
	return func() bool {
		for policy, key := range l.keys {
			if l.count(key, since, func(a *ask) bool { return wanted(policy, a) }) < 20 {
				return false
			}
		}
		return true
	}
}

// ofRedis returns a function that reports whether Redis has decided often enough for each key since then.
func (l *policyLoad) ofRedis(since time.Time) func() bool {
	return l.each(since, func(_ core.OutageAction, a *ask) bool { return a.byRedis() })
}

// replicated is a Cluster or servers with sentinels, in which a replica can become a master.
type replicated interface {
	DownAfter(testing.TB, time.Duration)
}

// replaced waits until the policies have decided since the master was lost, and then for another master. It returns when
// that was there.
func (l *policyLoad) replaced(t *testing.T, in replicated, lost time.Time, await func()) (promoted time.Time) {
	t.Helper()
	eventually(t, "the policies to decide", l.each(lost, func(policy core.OutageAction, a *ask) bool { return a.reason == policies[policy] }))
	in.DownAfter(t, soonDead)
	await()
	in.DownAfter(t, never)
	promoted = time.Now()
	back := eventually(t, "decisions of Redis", l.ofRedis(promoted))
	figure(t, "another master, with all replicas in sync, after the loss", promoted.Sub(lost))
	figure(t, "all policies' keys decided by Redis then within", back)
	return promoted
}

// finish ends the load once the outage is over, and checks and prints the outcome. fresh is a key of the master that
// nobody has asked for.
func (l *policyLoad) finish(t *testing.T, fresh string) {
	t.Helper()
	eventually(t, "the outage to be over", func() bool { return l.events.count(store.EventOutageEnded) > 0 })
	eventually(t, "more decisions", l.ofRedis(time.Now()))
	asks := l.stop()
	wantOnTime(t, asks, l.deadline)
	charged, unknown := map[string]int64{}, map[string]int64{} // as Redis said, and not known to be charged
	classes := map[store.Class]int{}
	for i := range asks {
		a := &asks[i]
		if a.byRedis() {
			charged[a.key]++
			continue
		}
		unknown[a.key]++
		classes[a.class]++
		for policy, key := range l.keys {
			if a.key == key && (a.reason != policies[policy] || a.allowed != (policy != core.Deny)) {
				t.Errorf("%s was decided %v, allowed %v, want %v", a.key, a.reason, a.allowed, policies[policy])
			}
		}
	}
	// Only Redis charged Deny's key. So what Redis has counted differs from what it has
	// answered only by what replication lost, or by answers that were lost.
	key := l.keys[core.Deny]
	lost := charged[key] - (policyQuota - remaining(t, l.patient, key))
	if lost < -unknown[key] || lost > charged[key] {
		t.Errorf("of %d charges %d are lost", charged[key], lost)
	}
	figure(t, "decisions by policy in the outage, by class of error", fmt.Sprint(classes))
	figure(t, "charges that the new master did not have, of those answered", fmt.Sprint(lost, " of ", charged[key]))
	exact := newPatient(t, l.store, atMost(500, "exact"))
	check.Equal(t, "admitted after the failover, of a quota of 500", hammerKey(t, exact, fresh, 500), 500)
}
