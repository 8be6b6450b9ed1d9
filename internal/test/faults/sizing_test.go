package faults_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var usedMemory = regexp.MustCompile(`(?m)^used_memory:(\d+)`)

// The memory of a million clients: docs/run/redis.md has the table.
func TestMemoryOfRedisPerClient(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(24*time.Hour, 3*time.Minute) // at its end values of windows of a day and a month expire
	clients := long.Rounds[int64](3_000, 100_000)
	day := 24 * time.Hour
	for _, c := range []struct {
		name   string
		limits []core.Limit
		costs  []int64 // of each client's requests, so large that no value expires soon
	}{
		{"token bucket", []core.Limit{core.PerHour(3600)}, []int64{1800}},
		{"token bucket, a day", []core.Limit{core.PerDay(100_000)}, []int64{10_000}},
		{"fixed window", []core.Limit{core.Per(100_000, day).FixedWindow()}, []int64{1}},
		{"sliding window", []core.Limit{core.Per(100_000, day).SlidingWindow()}, []int64{1}},
		{"calendar window", []core.Limit{core.PerMonth(100_000, time.UTC)}, []int64{1}},
		{"sliding log, 10 entries", []core.Limit{core.Per(1000, day).SlidingLog()}, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{"requests at the same time, one running", []core.Limit{core.Concurrent(1000).Lease(day)}, []int64{1}},
		{"three limits: token bucket, fixed and sliding window", []core.Limit{
			core.PerHour(3600), core.Per(100_000, day).FixedWindow(), core.Per(100_000, day).SlidingWindow(),
		}, []int64{1800}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clients := clients / int64(len(c.costs))
			server := redistest.Start(t)
			client := server.Client(t)
			limits := make([]core.Limit, len(c.limits))
			for i, limit := range c.limits {
				limits[i] = limit.By(keyfuncs.Everyone()).Named(fmt.Sprint("limit-", i)).OnOutage(core.Deny)
			}
			l := newPatient(t, redisstore.New(client), limits...)
			ask := func(n, cost int64) {
				// As long as most keys are: an address, or a user's number.
				if d := l.AllowKey(context.Background(), keyfuncs.Encode("user", strconv.FormatInt(1e9+n, 10)), cost); d.Reason != core.ReasonWithinLimit {
					t.Errorf("%v, %v", d.Reason, d.Err)
				}
			}
			manyAsk(100, func() { ask(0, 1) }) // the script and the connections
			before := redisMemory(t, client)
			for _, cost := range c.costs {
				var n atomic.Int64
				manyAsk(int(clients), func() { ask(n.Add(1), cost) })
			}
			if keys := client.DBSize(t.Context()).Val(); keys < clients || keys > clients+1 {
				t.Fatalf("%d keys, want one for each of %d clients", keys, clients)
			}
			per := float64(redisMemory(t, client)-before) / float64(clients)
			figure(t, "bytes per client", per)
			if per > 600 {
				t.Errorf("%.0f bytes per client", per)
			}
		})
	}
}

// redisMemory returns a server's used_memory.
func redisMemory(t *testing.T, client *redis.Client) int64 {
	t.Helper()
	found := usedMemory.FindStringSubmatch(client.Info(t.Context(), "memory").Val())
	if found == nil {
		t.Fatal("INFO does not tell used_memory")
	}
	n, _ := strconv.ParseInt(found[1], 10, 64) // digits
	return n
}

// The memory of a million operations that are charged once; see docs/run/redis.md.
func TestMemoryOfRedisPerOperation(t *testing.T) {
	t.Parallel()
	operations := long.Rounds(3_000, 100_000)
	client := redistest.Start(t).Client(t)
	store := redisstore.New(client)
	rule := must.Get(core.PerDay(1<<40).OncePer(keyfuncs.Header("Idempotency-Key"), 24*time.Hour).Rule())(t)
	var n atomic.Int64
	ask := func() {
		key := []byte(keyfuncs.Encode("user", "1000012345"))
		checks := []core.Check{{Key: key, Rule: &rule, Cost: 1, Once: fmt.Append(nil, "operation", n.Add(1))}}
		results := make([]core.Result, 1)
		if err := store.Take(t.Context(), checks, results); err != nil || !results[0].Charged {
			t.Errorf("%+v, %v", results[0], err)
		}
	}
	manyAsk(100, ask)
	before := redisMemory(t, client)
	manyAsk(operations, ask)
	per := float64(redisMemory(t, client)-before) / float64(operations)
	figure(t, "bytes per operation", per)
	if per > 300 {
		t.Errorf("%.0f bytes per operation", per)
	}
}

// The memory of the clients that divide a limit, and that no more of them take any than are said to; see docs/run/redis.md.
func TestMemoryOfRedisPerDividingClient(t *testing.T) {
	t.Parallel()
	clients := long.Rounds(3_000, 110_000)
	client := redistest.Start(t).Client(t)
	limits := redisstore.New(client)
	shares := core.Shares{By: keyfuncs.Header("X-Client")}
	rule := must.Get(core.Per(1<<30, 24*time.Hour).Fair(shares).Rule())(t)
	var n atomic.Int64
	ask := func() {
		share := &store.Share{Key: []byte(keyfuncs.Encode("user", strconv.FormatInt(1e9+n.Add(1), 10))), Weight: 1}
		results := make([]core.Result, 1)
		if err := limits.Take(t.Context(), []core.Check{{Key: []byte("all"), Rule: &rule, Cost: 1, Share: share}}, results); err != nil || !results[0].Charged {
			t.Errorf("%+v, %v", results[0], err)
		}
	}
	manyAsk(100, ask)
	before := redisMemory(t, client)
	manyAsk(clients, ask)
	per := float64(redisMemory(t, client)-before) / float64(min(clients, 99_900))
	figure(t, "bytes per client that divides a limit", per)
	if per > 300 {
		t.Errorf("%.0f bytes per client", per)
	}
	if keys := client.DBSize(t.Context()).Val(); keys > 100_002 {
		t.Errorf("%d keys of 100,000 clients, a limit and its division", keys)
	}
}
