package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

// newRing returns a Ring of three servers, and their addresses.
func newRing(t *testing.T) (*redis.Ring, map[string]string) {
	t.Helper()
	addrs := map[string]string{}
	for i := range 3 {
		addrs[fmt.Sprint("shard", i)] = redistest.StartTCP(t).Addr()
	}
	client := redis.NewRing(&redis.RingOptions{Addrs: addrs})
	t.Cleanup(func() { _ = client.Close() })
	return client, addrs
}

// The shards of a Ring decide in several calls, and still all or nothing.
func TestRing(t *testing.T) {
	t.Parallel()
	client, _ := newRing(t)
	storetest.RunRandom(t, onRedis(client, redisstore.Config{}))
}

// forgetful is a store whose requests come so slowly that none knows of the denial before it.
type forgetful struct{ *redisstore.Store }

func (s forgetful) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	s.ForgetRecentDenials()
	return s.Store.Take(ctx, checks, results)
}

// Whatever one shard has charged when another denies comes back, if the clock was set back before, too.
func TestRingWithoutRecentDenials(t *testing.T) {
	t.Parallel()
	client, _ := newRing(t)
	storetest.RunRandom(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return forgetful{onRedis(client, redisstore.Config{})(t, clock).(*redisstore.Store)}
	})
}

// Keys stay with their shard, however the Ring's own view of its shards changes.
func TestRingWhoseShardIsTakenOutAndPutBack(t *testing.T) {
	t.Parallel()
	client, addrs := newRing(t)
	backend := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t), DenialCache: redisstore.DenialCache{Disabled: true}})
	rule := mustRule(t, core.PerDay(10))
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprint("user:", i))
		take(t, backend, checkOf(keys[i], rule, 1))
	}
	client.SetAddrs(map[string]string{"shard0": addrs["shard0"], "shard1": addrs["shard1"]})
	out := 0
	for _, key := range keys {
		r, err := takeOne(t, backend, checkOf(key, rule, 1))
		var failed *store.Error
		switch {
		case err == nil && r.Remaining == 8:
		case errors.As(err, &failed) && (failed.Class == store.ClassClosed || failed.Class == store.ClassOpen):
			out++
		default:
			t.Errorf("%s: %+v, %v", key, r, err)
		}
	}
	if out == 0 || out == len(keys) {
		t.Errorf("%d of %d keys are out", out, len(keys))
	}
	client.SetAddrs(addrs)
	for _, key := range keys {
		if r := peek(t, backend, checkOf(key, rule, 1)); r.Remaining < 8 || r.Remaining > 9 {
			t.Errorf("%s with all shards back: %+v", key, r)
		}
	}
}

// A shard that was out for a moment has another client. The next check finds it.
func TestRingWhoseShardWasOutBetweenTwoChecks(t *testing.T) {
	t.Parallel()
	client, addrs := newRing(t)
	backend := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
	rule := mustRule(t, core.PerDay(10))
	for n := range int64(3) {
		for i := range 20 {
			check.Equal(t, fmt.Sprintf("user %d: remain", i), take(t, backend, checkOf(fmt.Sprint("user:", i), rule, 1))[0].Remaining, 9-n)
		}
		client.SetAddrs(map[string]string{"shard0": addrs["shard0"]})
		client.SetAddrs(addrs)
	}
}
