package core_test

import (
	"math"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestCostBy(t *testing.T) {
	t.Parallel()
	for algorithm, limit := range storetest.Algorithms(10, time.Hour) {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			l := limiterAt(t, limit.By(keyfuncs.Everyone()).Named("default").CostBy(costing))
			for _, step := range []struct {
				name      string
				cost      int64
				reason    core.Reason
				remaining int64
			}{
				{"nothing asks without charging", 0, core.ReasonWithinLimit, 10},
				{"what fits", 7, core.ReasonWithinLimit, 3},
				{"what does not fit charges nothing", 4, core.ReasonLimitExceeded, 3},
				{"above the burst", 11, core.ReasonNeverFits, 3},
				{"beyond what is counted exactly", 1 << 53, core.ReasonNeverFits, 3},
				{"the largest number", math.MaxInt64, core.ReasonNeverFits, 3},
				{"the rest", 3, core.ReasonWithinLimit, 0},
				{"nothing always fits", 0, core.ReasonWithinLimit, 0},
			} {
				d := l.Allow(cost(step.cost))
				wantDecision(t, step.name, d, step.reason == core.ReasonWithinLimit, step.reason, step.remaining)
				if never := step.cost > 10; never && d.RetryAfter != 0 || !d.Allowed && !never && d.RetryAfter == 0 {
					t.Errorf("%s: told to come back in %v", step.name, d.RetryAfter)
				}
			}
			for _, negative := range []int64{-1, math.MinInt64} {
				d := l.Allow(cost(negative))
				wantDecision(t, "a negative cost", d, false, core.ReasonInvalidCost, 0)
				wantProblem(t, &d, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded.","violated-policies":["default"]}`)
				check.All(t, "a negative cost", []any{told(d).Get("RateLimit"), told(d).Get("Retry-After"), d.Status()}, "", "", 429)
			}
		})
	}
}

// Each limit has its own cost, and one that can't be paid charges no other.
func TestCostsOfSeveralLimits(t *testing.T) {
	t.Parallel()
	store := newFlaky(false)
	l := limiterOn(t, store,
		everyone(100).Named("bytes").CostBy(costing),
		everyone(10).Named("requests"),
		everyone(30).Named("weighted").Cost(3),
		everyone(5).Named("plain"))
	wantDecision(t, "a small one", l.Allow(cost(10)), true, core.ReasonWithinLimit, 90, 9, 27, 4)
	wantDecision(t, "a large one", l.Allow(cost(91)), false, core.ReasonLimitExceeded, 90, 9, 27, 4)
	wantDecision(t, "nothing of one limit", l.Allow(cost(0)), true, core.ReasonWithinLimit, 90, 8, 24, 3)
	asked := store.calls.Load()
	wantDecision(t, "a negative one", l.Allow(cost(-1)), false, core.ReasonInvalidCost, 0)
	check.Equal(t, "calls of the store, which is not asked about a negative cost", store.calls.Load(), asked)
	wantDecision(t, "the rest", l.Allow(cost(90)), true, core.ReasonWithinLimit, 0, 7, 21, 2)
}

// During an outage a cost that the limit could pay takes what the share has, and
// one that it could not is denied.
func TestCostByDuringAnOutage(t *testing.T) {
	t.Parallel()
	ask := func(n int64) core.Decision {
		return newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 5, Limits: []core.Limit{everyone(20).CostBy(costing)}}).Allow(cost(n))
	}
	wantDecision(t, "within the share of 4", ask(3), true, core.ReasonOutageLocal, 1)
	wantDecision(t, "above the share", ask(20), true, core.ReasonOutageLocal, 0)
	wantDecision(t, "above the limit", ask(21), false, core.ReasonNeverFits, 4)
	wantDecision(t, "nothing", ask(0), true, core.ReasonOutageLocal, 4)
	wantDecision(t, "the largest number", ask(math.MaxInt64), false, core.ReasonNeverFits, 4)
	wantDecision(t, "negative", ask(-1), false, core.ReasonInvalidCost, 0)
}
