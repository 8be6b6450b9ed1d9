package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// oddPlan is a limit with everything that reads a request.
func oddPlan() core.Limit {
	return core.PerHour(10).By(keyfuncs.Tenant("tenant")).Named("tenant").
		Unless(keyfuncs.Matches(func(r keyfuncs.Request) bool {
			return r.Value("kind") == "internal" || keyfuncs.HeaderOf(r, "X-Kind") == "internal"
		})).
		CostBy(func(keyfuncs.Request) int64 { return -1 }).
		OncePer(keyfuncs.Header("Message-Id"), time.Hour).
		Tiers(func(r keyfuncs.Request) core.Limit {
			if r.Value("plan") == "pro" {
				return core.PerHour(100)
			}
			return core.Limit{}
		})
}

// A batch of a request is decided as the request is, apart from its cost.
func TestAllowAtMostOfRequests(t *testing.T) {
	t.Parallel()
	memory, _ := at()
	l := newLimiter(t, core.Config{Store: memory, Limits: []core.Limit{oddPlan().OnMissingKey(core.DenyRequest)}, Bypass: []keyfuncs.Condition{
		keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("kind") == "test" }),
	}})
	type values = keyfuncs.Values
	for _, tt := range []struct {
		name    string
		values  values
		n, want int64
		reason  core.Reason
		again   bool // asking again can help
	}{
		{"the limit's own numbers", values{"tenant": "small"}, 50, 10, core.ReasonWithinLimit, true},
		{"nothing left", values{"tenant": "small"}, 50, 0, core.ReasonLimitExceeded, true},
		{"asking for nothing", values{"tenant": "small"}, 0, 0, core.ReasonWithinLimit, false},
		{"a plan", values{"tenant": "acme", "plan": "pro", "Message-Id": "1"}, 60, 60, core.ReasonWithinLimit, false},
		{"no repeat of an operation", values{"tenant": "acme", "plan": "pro", "Message-Id": "1"}, 60, 40, core.ReasonWithinLimit, true},
		{"a limit that does not apply", values{"tenant": "acme", "kind": "internal"}, 1000, 1000, core.ReasonWithinLimit, false},
		{"a bypass", values{"tenant": "acme", "kind": "test"}, 1000, 1000, core.ReasonBypassed, false},
		{"no key", values{"plan": "pro"}, 5, 0, core.ReasonMissingKey, false},
		{"two keys", values{"tenant": "acme", "x-kind": "a", "X-Kind": "b"}, 5, 0, core.ReasonAmbiguousKey, false},
		{"a negative number", values{"tenant": "acme"}, -1, 0, core.ReasonInvalidCost, false},
	} {
		granted, d := l.AllowAtMost(tt.values, tt.n)
		check.All(t, tt.name, []any{granted, d.Reason, d.RetryAfter > 0}, tt.want, tt.reason, tt.again)
	}
	if d := l.AllowKey(t.Context(), keyfuncs.Encode("tenant", "acme"), 1); d.Allowed {
		t.Error("AllowKey has another bucket")
	}
}

// Limits of a fallback are asked for the same number of units.
func TestAllowAtMostOfRequestsInAnOutage(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, core.Config{Store: newFlaky(true), Limits: []core.Limit{oddPlan()}, Fallback: core.Fallback{
		Limits: []core.Limit{core.PerHour(5).By(keyfuncs.User("user")).Named("in-an-outage").CostBy(func(keyfuncs.Request) int64 { return -1 })},
	}})
	for _, want := range []int64{4, 1, 0} {
		granted, d := l.AllowAtMost(keyfuncs.Values{"tenant": "acme", "user": "42"}, 4)
		check.All(t, "granted", []any{granted, d.Reason, d.RetryAfter > 0}, want, core.ReasonOutageLocal, want < 4)
	}
}

// Observers see the request, and the units that were granted.
func TestAllowAtMostOfRequestsIsObserved(t *testing.T) {
	t.Parallel()
	memory, _ := at()
	seen := new(requestObserver)
	l := newLimiter(t, core.Config{Store: memory, Limits: []core.Limit{oddPlan()}, Observe: seen})
	l.AllowAtMost(keyfuncs.Values{"tenant": "acme", "route": "/jobs"}.WithContext(context.WithValue(t.Context(), ctxKey{}, "here")), 99)
	check.All(t, "observed", []any{seen.route, seen.key, seen.value, seen.cost, seen.times}, "/jobs", "tenant:acme", "here", 10, 1)
}

type ctxKey struct{}

type requestObserver struct {
	core.NopObserver
	route, key string
	cost       int64
	value      any
	times      int
}

func (o *requestObserver) Decided(ctx context.Context, seen *core.Observation) {
	o.route, o.key, o.cost, o.value = seen.Route(), string(seen.Key(0)), seen.Cost(0), ctx.Value(ctxKey{})
	o.times++
}

// racing lets others take what would have fitted, each time before it charges.
type racing struct {
	core.Store
	others func()
}

func (s *racing) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	err := s.Store.Take(ctx, checks, results)
	if !results[0].Allowed {
		s.others()
	}
	return err
}

// A part of a batch always says when to ask again, even if more may fit already.
func TestAPartOfABatchSaysWhenToAskAgain(t *testing.T) {
	t.Parallel()
	memory, _ := at()
	store := &racing{Store: memory}
	limits := []core.Limit{everyone(100).Named("shared")}
	others := limiterOn(t, memory, limits...)
	store.others = func() { others.AllowKey(context.Background(), "k", 5) }
	store.others()
	l := limiterOn(t, store, limits...)
	granted, d := l.AllowKeyAtMost(t.Context(), "k", 150)
	if left, _ := d.Binding(); granted == 0 || granted == 150 || left.Remaining == 0 || d.RetryAfter <= 0 {
		t.Errorf("granted %d, %d are left, RetryAfter %v", granted, left.Remaining, d.RetryAfter)
	}
}
