package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// sentinelLoad is three limits, one of each policy, under load on a Sentinel set.
type sentinelLoad struct {
	*traffic
	set      *redistest.Sentinel
	store    *redisstore.Store
	events   *audience
	limiters map[core.Outage]*core.Limiter
	patient  *core.Limiter // for the limit of core.Deny
}

const (
	sentinelQuota    = 1_000_000
	sentinelDeadline = 200 * time.Millisecond
)

// After how long a master is dead that does not answer: while others are to replace it, and otherwise. A master
// that hardly runs would lose its place where no test expects it, and a process that hardly runs would miss an
// outage that others end.
const (
	soonDead = time.Second
	never    = time.Hour
)

func sentinelKey(policy core.Outage) string { return fmt.Sprint("user:", policy) }

func newSentinelLoad(t *testing.T, options ...func(*sentinelLoad) *redis.FailoverOptions) *sentinelLoad {
	t.Helper()
	s := &sentinelLoad{traffic: newTraffic(), set: redistest.StartSentinel(t), limiters: map[core.Outage]*core.Limiter{}}
	client := &redis.FailoverOptions{}
	for _, option := range options {
		client = option(s)
	}
	s.set.DownAfter(t, never)
	s.store = redisstore.New(s.set.ClientWith(t, client), redisstore.Config{DenialCache: noDenials()})
	s.events = listen(s.store)
	for policy := range policies {
		config := core.Config{
			Store: s.store, Timeout: sentinelDeadline, Replicas: 4,
			Limits: []core.Limit{atMost(sentinelQuota, fmt.Sprint("policy", policy)).OnOutage(policy)},
		}
		s.limiters[policy] = newLimiter(t, config)
		if policy == core.Deny {
			config.Timeout = patience
			s.patient = newLimiter(t, config)
		}
		s.send(s.limiters[policy], sentinelKey(policy), 4, 10*time.Millisecond)
	}
	eventually(t, "load", s.ofRedis(time.Now()))
	return s
}

// ofRedis reports whether Redis has decided often enough for each key since then.
func (s *sentinelLoad) ofRedis(since time.Time) func() bool {
	return func() bool {
		for policy := range policies {
			if s.count(sentinelKey(policy), since, (*ask).byRedis) < 20 {
				return false
			}
		}
		return true
	}
}

// replaced waits until the policies have decided since the master was lost, which a process that hardly runs
// might miss otherwise, and then for another master. It returns when that was there.
func (s *sentinelLoad) replaced(t *testing.T, master *redistest.Server, lost time.Time) time.Time {
	t.Helper()
	for policy, reason := range policies {
		eventually(t, "the policies to decide", func() bool {
			return s.count(sentinelKey(policy), lost, func(a *ask) bool { return a.reason == reason }) > 20
		})
	}
	s.set.DownAfter(t, soonDead)
	s.set.AwaitFailover(t, master)
	s.set.DownAfter(t, never)
	return time.Now()
}

// finish ends the load once the outage is over, and checks and prints the outcome.
func (s *sentinelLoad) finish(t *testing.T) {
	t.Helper()
	eventually(t, "the outage to be over", func() bool { return s.events.count(core.EventOutageEnded) > 0 })
	eventually(t, "more decisions", s.ofRedis(time.Now()))
	asks := s.stop()
	wantOnTime(t, asks, sentinelDeadline)
	charged, out := map[string]int64{}, map[string]int64{}
	classes := map[store.Class]int{}
	for i := range asks {
		a := &asks[i]
		if a.byRedis() {
			charged[a.key]++
			continue
		}
		out[a.key]++
		classes[a.class]++
		for policy, reason := range policies {
			if a.key == sentinelKey(policy) && (a.reason != reason || a.allowed != (policy != core.Deny)) {
				t.Errorf("%s was decided %v, allowed %v, want %v", a.key, a.reason, a.allowed, reason)
			}
		}
	}
	key := sentinelKey(core.Deny)
	lost := charged[key] - (sentinelQuota - remaining(t, s.patient, key))
	if lost < -out[key] || lost > charged[key] {
		t.Errorf("of %d charges %d are lost", charged[key], lost)
	}
	figure(t, "decisions by policy, by class of error", fmt.Sprint(classes))
	figure(t, "charges that the new master did not have, of those answered", fmt.Sprint(lost, " of ", charged[key]))
	exact := newPatient(t, s.store, atMost(500, "exact"))
	check.Equal(t, "of a quota of 500 admitted after the failover", hammerKey(t, exact, "exact", 500), 500)
}

// The master dies under load, or freezes. The outage policies decide, in time, until the
// sentinels have promoted another server. Then Redis decides, exactly.
func TestSentinelMasterIsLostUnderLoad(t *testing.T) {
	t.Parallel()
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSentinelLoad(t)
			master := s.set.Master(t)
			lost := time.Now()
			lose(t, master)
			promoted := s.replaced(t, master, lost)
			back := eventually(t, "decisions of Redis", s.ofRedis(promoted))
			figure(t, "new master, with all replicas in sync, after the loss", promoted.Sub(lost))
			figure(t, "all keys decided by it then within", back)
			s.finish(t)
		})
	}
}

// A master that is made a replica still answers, and refuses writes. That is an outage
// of the class READONLY, until the sentinels have put it right.
func TestSentinelMasterIsDemoted(t *testing.T) {
	t.Parallel()
	redistest.Since(t, 7, 0, "sentinels that look at their servers more often")
	s := newSentinelLoad(t)
	master := s.set.Master(t)
	began := time.Now()
	master.ReadOnly(t)
	eventually(t, "the hook to hear of READONLY", func() bool { return s.events.heard(core.EventStoreError, store.ClassReadOnly) })
	s.set.DownAfter(t, soonDead)
	eventually(t, "a new master", func() bool { return s.set.Master(t) != master })
	s.set.DownAfter(t, never)
	eventually(t, "decisions of a new master", s.ofRedis(time.Now()))
	figure(t, "decided by another master after", time.Since(began))
	s.finish(t)
}

// An operator triggers a failover while all is well. Redis or the outage policy decides
// each request, and the decision says which.
func TestSentinelFailoverByHand(t *testing.T) {
	t.Parallel()
	s := newSentinelLoad(t)
	master := s.set.Master(t)
	began := time.Now()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.set.Sentinels()[0].Addr()})
	defer func() { _ = sentinel.Close() }()
	must.OK(t, sentinel.Failover(context.Background(), redistest.MasterName).Err())
	s.set.AwaitFailover(t, master)
	promoted := time.Now()
	back := eventually(t, "decisions of Redis", s.ofRedis(promoted))
	figure(t, "new master, with all replicas in sync, after", promoted.Sub(began))
	figure(t, "all keys decided by it then within", back)
	if s.events.count(core.EventOutageBegan) > 0 {
		s.finish(t)
		return
	}
	wantOnTime(t, s.stop(), sentinelDeadline)
}

// The master's host disappears without closing connections, and with it the sentinel
// that the client asks. A check waits neither for that sentinel nor for its connection,
// and the client finds another sentinel, which go-redis would not do by itself.
func TestSentinelOfTheMastersHostIsGoneToo(t *testing.T) {
	t.Parallel()
	s := newSentinelLoad(t, func(s *sentinelLoad) *redis.FailoverOptions {
		return &redis.FailoverOptions{
			SentinelAddrs: []string{s.set.Sentinels()[0].Addr()}, // it learns the others from this one
			ReadTimeout:   500 * time.Millisecond,                // a sentinel gets four of these
		}
	})
	master := s.set.Master(t)
	lost := time.Now()
	s.set.Sentinels()[0].Freeze(t)
	master.Freeze(t)
	promoted := s.replaced(t, master, lost)
	back := eventually(t, "decisions of Redis", s.ofRedis(promoted))
	figure(t, "new master, with all replicas in sync, after the loss", promoted.Sub(lost))
	figure(t, "all keys decided by it then within", back)
	s.finish(t)
}
