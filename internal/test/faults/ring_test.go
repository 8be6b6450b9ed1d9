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
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// ring is three servers behind a Ring, and a store on it.
type ring struct {
	servers []*redistest.Server
	client  *redis.Ring
	store   *redisstore.Store
	events  *audience
	prefix  string
}

func newRing(t *testing.T) *ring {
	t.Helper()
	r := &ring{prefix: redistest.Prefix(t)}
	addrs := map[string]string{}
	for i := range 3 {
		server := redistest.StartTCP(t)
		r.servers = append(r.servers, server)
		addrs[fmt.Sprint("shard", i)] = server.Addr()
	}
	// The Ring itself considers a shard dead after three heartbeats.
	r.client = redis.NewRing(&redis.RingOptions{Addrs: addrs, HeartbeatFrequency: 50 * time.Millisecond})
	t.Cleanup(func() { _ = r.client.Close() })
	r.store = redisstore.New(r.client, redisstore.Config{Prefix: r.prefix, DenialCache: noDenials()})
	r.events = listen(r.store)
	return r
}

// homes returns the server of each key.
func (r *ring) homes(t *testing.T, keys []string) map[string]*redistest.Server {
	t.Helper()
	homes := map[string]*redistest.Server{}
	for _, s := range r.servers {
		for _, key := range keys {
			if s.Client(t).Exists(context.Background(), r.prefix+"{"+key+"}").Val() == 0 {
				continue
			}
			if homes[key] != nil {
				t.Errorf("%s is on two shards", key)
			}
			homes[key] = s
		}
	}
	return homes
}

// A shard of a Ring is down. Its keys follow the outage action, other keys are not
// affected, and no key starts afresh on another shard. When the shard is back, it
// decides for its keys again.
func TestRingShardIsDown(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	const quota, deadline = 500, 10 * time.Second
	l := newLimiter(t, core.Config{Store: r.store, Timeout: deadline, Limits: []core.Limit{atMost(quota, "ring").OnOutage(core.Deny)}})
	keys := make([]string, 60)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	var asks []ask
	all := func() {
		for _, key := range keys {
			asks = append(asks, decide(l, key))
		}
	}
	all()
	homes := r.homes(t, keys)
	down := r.servers[1]
	own := 0
	for _, key := range keys {
		if homes[key] == nil {
			t.Fatalf("%s is on no shard", key)
		}
		if homes[key] == down {
			own++
		}
	}
	if own == 0 || own == len(keys) {
		t.Fatalf("%d of %d keys are on one shard", own, len(keys))
	}
	down.Kill()
	eventually(t, "the Ring to give up the shard", func() bool { return r.client.Len() == 2 })
	out := len(asks)
	for range 5 {
		all()
	}
	for _, a := range asks[out:] {
		if byPolicy := a.reason == core.ReasonOutageDenied; byPolicy != (homes[a.key] == down) || a.byRedis() == byPolicy {
			t.Errorf("%s was decided %v", a.key, a.reason)
		}
	}
	if !r.events.heard(store.EventStoreError, store.ClassConnection) {
		t.Errorf("the hook heard %v", r.events)
	}
	down.Restart(t)
	back := eventually(t, "the shard to decide", func() bool {
		for _, key := range keys {
			if homes[key] == down {
				return decide(l, key).reason == core.ReasonWithinLimit
			}
		}
		return false
	})
	eventually(t, "the Ring to have the shard", func() bool { return r.client.Len() == 3 })
	before := len(asks)
	all()
	for _, a := range asks[before:] {
		if !a.byRedis() {
			t.Errorf("%s was decided %v with all shards up", a.key, a.reason)
		}
	}
	for key, home := range r.homes(t, keys) {
		if home != homes[key] {
			t.Errorf("%s has moved to another shard", key)
		}
	}
	exact := newPatient(t, r.store, atMost(quota, "exact"))
	for _, key := range keys[:6] {
		if n := hammerKey(t, exact, key, quota); n != quota {
			t.Errorf("%d of a quota of %d were admitted for %s", n, quota, key)
		}
	}
	figure(t, "keys of 60 on the shard that was down", own)
	figure(t, "decided by it after its restart within", back)
	wantOnTime(t, asks, deadline)
}

// A request has keys on three shards, one of which is down: the others give back their charges.
func TestRingShardThatIsDownHasOthersGiveBack(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	rule := ruleOf(t, atMost(100, "ring"))
	keys := make([]string, 12)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	must.Do(takeWithin(r.store, patience, rule, keys...))(t)
	homes := r.homes(t, keys)
	r.servers[2].Kill()
	for range 20 {
		if _, err := takeWithin(r.store, patience, rule, keys...); err == nil {
			t.Error("decided without a shard")
		}
	}
	kept := int64(0)
	eventually(t, "all to be given back", func() bool {
		kept = 0
		for i, used := range usedBy(r.store, rule, keys...) {
			if homes[keys[i]] != r.servers[2] {
				kept += used - 1
			}
		}
		return kept == 0
	})
	figure(t, "units kept by live shards after 20 requests that failed on one", kept)
}

// A Ring sends commands again that got no answer. A store on a Ring does not, since the
// check may have been charged.
func TestRingRetriesDoNotChargeTwice(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	proxy := redistest.StartProxy(t, server)
	proxy.Match("evalsha", "eval")
	client := redis.NewRing(&redis.RingOptions{
		Addrs:      map[string]string{"only": proxy.Addr()},
		MaxRetries: 5, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: time.Millisecond,
	})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.Config{DenialCache: noDenials()})
	store.OnEvent(func(core.Event) {})
	rule := ruleOf(t, atMost(100, "ring"))
	must.Do(takeWithin(store, patience, rule, "k"))(t)
	const cuts = 4
	for range cuts {
		proxy.CutReplies(1)
		if _, err := takeWithin(store, patience, rule, "k"); err == nil {
			t.Error("decided without an answer")
		}
	}
	if used := usedBy(store, rule, "k")[0]; used != 1+cuts {
		t.Errorf("%d units were charged for %d requests", used, 1+cuts)
	}
	figure(t, "units charged by 5 requests, of which 4 lost their answer", usedBy(store, rule, "k")[0])
}
