package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// chargeAnyway charges a cost whether or not it fits.
func (r *rig) chargeAnyway(rule *core.Rule, key string, cost int64) core.Result {
	r.Helper()
	results := make([]core.Result, 1)
	if err := r.Charge(context.Background(), []core.Check{{Key: []byte(key), Rule: rule, Cost: cost}}, results); err != nil {
		r.Fatalf("charge: %v", err)
	}
	return results[0]
}

// owed are limits of ten per ten hours, by how what is owed is waited off.
func owed() map[string]core.Limit {
	const window = 10 * time.Hour
	return map[string]core.Limit{
		"token bucket":   core.Per(10, window),
		"fixed window":   core.Per(10, window).FixedWindow(),
		"first use":      core.Per(10, window).FromFirstUse(),
		"sliding window": core.Per(10, window).SlidingWindow(),
		"sliding log":    core.Per(10, window).SlidingLog(),
		"calendar":       core.PerCalendarDay(10, time.UTC),
	}
}

// A charge goes as far below zero as the limit's debt lets it, says what it has forgiven, and the next request
// waits for all that was charged.
func debtsChosen(r *rig) {
	for name, limit := range owed() {
		for _, c := range []struct{ debt, most int64 }{{-1, 20}, {0, 10}, {1, 11}, {35, 45}} {
			r.Run(fmt.Sprintf("%s, debt %d", name, c.debt), func(t *testing.T) {
				r := &rig{t, r.Store, r.Clock}
				l := limit.Named(fmt.Sprintf("owed%d", c.debt+1))
				if c.debt >= 0 {
					l = l.Debt(c.debt)
				}
				rule, key := rule(r, l), name
				r.wantTake(rule, key, 4, true, 6)
				for i, charge := range []struct{ cost, forgiven int64 }{
					{3, 0}, {0, 0}, {c.most, 7}, {1, 1}, {1 << 60, 1 << 60}, {0, 0},
				} {
					got := r.chargeAnyway(rule, key, charge.cost)
					if got.Forgiven != charge.forgiven || got.Remaining > 3 || i > 1 && got.Remaining != 0 {
						r.Fatalf("charge %d of %d: %s", i, charge.cost, show(got))
					}
				}
				denied := r.wantTake(rule, key, 1, false, 0)
				if rule.Algorithm == store.TokenBucket {
					if want := time.Duration(c.most-9) * time.Hour; denied.RetryAfter != want {
						r.Errorf("owing %d: retry after %v, want %v", c.most-10, denied.RetryAfter, want)
					}
				}
				r.Advance(denied.RetryAfter - time.Microsecond)
				r.wantTake(rule, key, 1, false, 0)
				r.Advance(time.Microsecond)
				if got := r.take(rule, key, 1); !got.Charged || got.Forgiven != 0 {
					r.Errorf("after the wait: %s", show(got))
				}
			})
		}
	}
}

// What counts more than a charge brings it to under other numbers is charged nothing, and a limit that may owe more than
// before goes on from where it is.
func debtsChanged(r *rig) {
	for name, limit := range owed() {
		limit = limit.Named("changed")
		little, much := rule(r, limit.Debt(0)), rule(r, limit.Debt(50_000))
		if wide, err := limit.Debt(5_000_000_000).Rule(); err == nil { // its counts are wider in Redis
			much = &wide
		}
		if little.Algorithm == store.TokenBucket { // a larger one would seem to be from before the clock was set back
			much = rule(r, limit.Debt(5))
		}
		owes := much.Debt
		r.wantTake(little, name, 10, true, 0)
		for i, c := range []struct {
			rule           *core.Rule
			cost, forgiven int64
		}{{little, 3, 3}, {much, 3, 0}, {little, 1, 1}, {much, owes, 3}, {much, 1, 1}, {little, 2, 2}, {much, 1, 1}} {
			if got := r.chargeAnyway(c.rule, name, c.cost); got.Forgiven != c.forgiven || got.Remaining != 0 {
				r.Fatalf("%s: charge %d under %s: %s, want %d forgiven", name, i, describe(c.rule), show(got), c.forgiven)
			}
		}
	}
}
