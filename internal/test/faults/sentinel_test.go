package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// newSentinelLoad starts a Sentinel set, and load on it.
func newSentinelLoad(t *testing.T, options ...func(*redistest.Sentinel) *redis.FailoverOptions) (*redistest.Sentinel, *policyLoad) {
	t.Helper()
	set, client := redistest.StartSentinel(t), &redis.FailoverOptions{}
	for _, option := range options {
		client = option(set)
	}
	set.DownAfter(t, never)
	s := redisstore.New(set.ClientWith(t, client), redisstore.Config{DenialCache: noDenials()})
	return set, newPolicyLoad(t, s, 200*time.Millisecond, []string{"user:0", "user:1", "user:2"})
}

// The master dies under load, or freezes. The outage actions decide, in time, until the
// sentinels have promoted another server. Then Redis decides, exactly.
func TestSentinelMasterIsLostUnderLoad(t *testing.T) {
	t.Parallel()
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, load := newSentinelLoad(t)
			master, lost := set.Master(t), time.Now()
			lose(t, master)
			load.replaced(t, set, lost, func() { set.AwaitFailover(t, master) })
			load.finish(t, "exact")
		})
	}
}

// A master that is made a replica still answers, and refuses writes. That is an outage
// of the class READONLY, until the sentinels have put it right.
func TestSentinelMasterIsDemoted(t *testing.T) {
	t.Parallel()
	redistest.Since(t, 7, 0, "sentinels that look at their servers more often")
	set, load := newSentinelLoad(t)
	master, began := set.Master(t), time.Now()
	master.ReadOnly(t)
	eventually(t, "the hook to hear of READONLY", func() bool { return load.events.heard(store.EventStoreError, store.ClassReadOnly) })
	set.DownAfter(t, soonDead)
	eventually(t, "a new master", func() bool { return set.Master(t) != master })
	set.DownAfter(t, never)
	eventually(t, "decisions of a new master", load.ofRedis(time.Now()))
	figure(t, "decided by another master after", time.Since(began))
	load.finish(t, "exact")
}

// An operator triggers a failover while all is well. Redis or the outage action decides
// each request, and the decision says which.
func TestSentinelFailoverByHand(t *testing.T) {
	t.Parallel()
	set, load := newSentinelLoad(t)
	master, began := set.Master(t), time.Now()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: set.Sentinels()[0].Addr()})
	defer func() { _ = sentinel.Close() }()
	must.OK(t, sentinel.Failover(context.Background(), redistest.MasterName).Err())
	set.AwaitFailover(t, master)
	promoted := time.Now()
	back := eventually(t, "decisions of Redis", load.ofRedis(promoted))
	figure(t, "new master, with all replicas in sync, after", promoted.Sub(began))
	figure(t, "all keys decided by it then within", back)
	if load.events.count(store.EventOutageBegan) > 0 {
		load.finish(t, "exact")
		return
	}
	wantOnTime(t, load.stop(), load.deadline)
}

// The master's host disappears without closing connections, and with it the sentinel
// that the client asks. A check waits neither for that sentinel nor for its connection,
// and the client finds another sentinel, which go-redis would not do by itself.
func TestSentinelOfTheMastersHostIsGoneToo(t *testing.T) {
	t.Parallel()
	set, load := newSentinelLoad(t, func(set *redistest.Sentinel) *redis.FailoverOptions {
		return &redis.FailoverOptions{
			SentinelAddrs: []string{set.Sentinels()[0].Addr()}, // it learns the others from this one
			ReadTimeout:   500 * time.Millisecond,              // a sentinel gets four of these
		}
	})
	master, lost := set.Master(t), time.Now()
	set.Sentinels()[0].Freeze(t)
	master.Freeze(t)
	load.replaced(t, set, lost, func() { set.AwaitFailover(t, master) })
	load.finish(t, "exact")
}
