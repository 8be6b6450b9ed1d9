package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// BenchmarkSlots reports what a request costs whose limits are in several slots of three
// masters: its median time, and the calls of the script, including those in the
// background. One client asks, and nothing is cached.
func BenchmarkSlots(b *testing.B) {
	wide := core.PerDay(1_000_000_000).FixedWindow()
	narrow := core.Per(1, 1000*time.Hour)
	for _, c := range []struct {
		name   string
		limits []core.Limit
	}{
		{"one slot, granted", []core.Limit{wide}},
		{"one slot, denied", []core.Limit{narrow}},
		{"two slots, granted", []core.Limit{wide, wide}},
		{"two slots, denied by the client's own limit", []core.Limit{narrow, wide}},
		{"two slots, denied by the common limit", []core.Limit{wide, narrow}},
		{"three slots, granted", []core.Limit{wide, wide, wide}},
		{"three slots, denied by the client's own limit", []core.Limit{narrow, wide, wide}},
		{"three slots, denied by the common limit", []core.Limit{wide, wide, narrow}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkSlots(b, c.limits) })
	}
}

func benchmarkSlots(b *testing.B, limits []core.Limit) {
	cluster := redistest.SharedCluster(b)
	store := redisstore.New(cluster.Client(b), redisstore.Config{Prefix: redistest.Prefix(b), DenialCache: redisstore.DenialCache{Disabled: true}})
	rules := make([]*core.Rule, len(limits))
	for i, l := range limits {
		rules[i] = mustRule(b, l.Named(fmt.Sprint("limit", i)))
	}
	// The store has learned that the first limit is for each client and the last for all.
	ask := func(client int) {
		checks, results := make([]core.Check, len(rules)), make([]core.Result, len(rules))
		for i := range checks {
			checks[i] = core.Check{Key: fmt.Appendf(nil, "%d:%d", i, client/(1+100*i*i)), Rule: rules[i], Cost: 1}
		}
		must.OK(b, store.Take(context.Background(), checks, results))
	}
	for client := range 100 {
		ask(client)
	}
	calls := func() (n int64) {
		for _, node := range cluster.Masters() {
			n += node.Calls(b, "evalsha")
		}
		return n
	}
	before := calls()
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		ask(len(took) % 100)
		took = append(took, time.Since(start))
	}
	time.Sleep(10 * time.Millisecond) // until the background is done
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(calls()-before)/float64(len(took)), "calls/op")
}
