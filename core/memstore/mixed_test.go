package memstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
)

// All calls at once on a few keys of one shard: what was charged and not given back is what is used,
// to the unit, though others come and go around them, and the table grows and evicts. The clock
// stands still, so nothing drains.
func TestMixedCallsCountExactly(t *testing.T) {
	t.Parallel()
	const keys, buckets = 3, 512
	m, _ := small(t, buckets)
	limits := []core.Limit{
		core.PerDay(1 << 30).Named("a"),
		core.PerDay(1 << 30).FixedWindow().Named("b"),
		core.PerDay(1 << 30).SlidingWindow().Named("c"),
		core.PerDay(5000).SlidingLog().Named("d"),
		core.PerDay(1 << 30).Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}).Named("e"),
	}
	rules := make([]*core.Rule, len(limits))
	for i, l := range limits {
		rules[i] = mustRule(t, l)
	}
	flood := mustRule(t, core.PerHour(1<<40).Named("flood")) // uses less than any: it is evicted first
	rounds := long.Rounds(600, 3000)
	var used [keys][5]atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			c := caller{t, m}
			for i := range rounds {
				k := (i + g) % keys
				key := fmt.Appendf(nil, "key %d", k)
				one := (i + g) % len(rules)
				if one == 3 && i >= 600/8*len(rules) {
					one = 0 // the log is small
				}
				switch (i / 7) % 5 {
				case 0: // the path for one limit
					var r core.Result
					if one < 4 {
						m.TakeOne(rules[one], key, 1, &r)
						c.count(&used[k][one], r.Charged, 1)
					}
				case 1: // several limits, all or nothing
					checks := []core.Check{{Key: key, Rule: rules[0], Cost: 1}, {Key: key, Rule: rules[1], Cost: 2}, {Key: key, Rule: rules[4], Cost: 1}}
					r := c.do(m.Take, checks)
					c.count(&used[k][0], r[0].Charged, 1)
					c.count(&used[k][1], r[1].Charged, 2)
					c.count(&used[k][4], r[2].Charged, 1)
				case 2: // charged, and given back
					checks := []core.Check{{Key: key, Rule: rules[one], Cost: 2}}
					if r := c.do(m.Take, checks); r[0].Charged {
						check.OK(t, m.Refund(t.Context(), checks, r))
					}
				case 3: // blocked for a moment, and looked at
					blocked := []core.Check{{Key: key, Rule: rules[4], Cost: 1}}
					check.OK(t, m.Block(t.Context(), blocked, time.Minute))
					c.do(m.Peek, blocked)
					check.OK(t, m.Unblock(t.Context(), blocked))
				default: // others, who come, and are reset or evicted
					other := []core.Check{{Key: fmt.Appendf(nil, "other %d %d", g, i), Rule: flood, Cost: 1}}
					c.do(m.Take, other)
					if i%2 == 0 {
						check.OK(t, m.Reset(t.Context(), other))
					}
				}
			}
		})
	}
	all.Wait()
	for k := range keys {
		for i, rule := range rules {
			got := take(t, m, fmt.Sprint("key ", k), rule, 0)
			if want := used[k][i].Load(); rule.Quota-got.Remaining != want {
				t.Errorf("limit %s of key %d counts %d units as used, want %d", rule.Name, k, rule.Quota-got.Remaining, want)
			}
		}
	}
}

// caller is one of several goroutines that call a store.
type caller struct {
	t *testing.T
	m *memstore.Store
}

func (c caller) do(call func(ctx context.Context, checks []core.Check, results []core.Result) error, checks []core.Check) []core.Result {
	results := make([]core.Result, len(checks))
	check.OK(c.t, call(c.t.Context(), checks, results))
	return results
}

func (caller) count(n *atomic.Int64, charged bool, units int64) {
	if charged {
		n.Add(units)
	}
}
