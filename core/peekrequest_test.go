package core_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A look charges nothing, is no strike, asks no function for a cost, and is shown to no observer.
func TestPeekRequestCostsNothing(t *testing.T) {
	t.Parallel()
	seen := new(counter)
	store, _ := at()
	l := newLimiter(t, core.Config{Store: store, Observe: seen, Limits: []core.Limit{
		everyone(2).Named("a").CostBy(func(keyfuncs.Request) int64 { t.Error("the cost was asked for"); return 1 }).
			Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}),
	}})
	for range 5 {
		wantDecision(t, "a look", must.Get(l.PeekRequest(&request{}, 1))(t), true, core.ReasonWithinLimit, 2)
		wantDecision(t, "at a cost that does not fit", must.Get(l.PeekRequest(&request{}, 3))(t), false, core.ReasonNeverFits, 2)
		wantDecision(t, "at no cost", must.Get(l.PeekRequest(&request{}, 0))(t), true, core.ReasonWithinLimit, 2)
	}
	must.Equal(t, "a cost below 0 is an error", func() bool { _, err := l.PeekRequest(&request{}, -1); return err != nil }(), true)
	check.Equal(t, "decisions that the observer has seen", seen.n, 0)
}

// It says what is said to this request, and not to others.
func TestPeekRequestIsAboutTheRequest(t *testing.T) {
	t.Parallel()
	byUser := core.PerHour(10).By(keyfuncs.User("user"))
	plans := func(r keyfuncs.Request) core.Limit {
		if r.Value("plan") == "pro" {
			return core.PerHour(100)
		}
		return core.Limit{}
	}
	user := func(name, method string) *request {
		return &request{method: method, values: map[any]any{"user": name, "plan": name}}
	}
	l := newLimiter(t, core.Config{
		Store: memoryAt(time.Unix(1e9, 0)), Bypass: []keyfuncs.Condition{keyfuncs.Methods("TRACE")},
		Limits: []core.Limit{
			byUser.Named("user").Tiers(plans).KeepFree(0.5, keyfuncs.Methods("POST")), byUser.Named("post").When(keyfuncs.Methods("POST")),
			byUser.Named("strict").OnMissingKey(core.DenyRequest), everyone(1).Named("trial").Shadow(),
		},
	})
	l.Allow(user("ann", "GET"))
	wantDecision(t, "ann's GET: half of 10, less 1", must.Get(l.PeekRequest(user("ann", "GET"), 1))(t), true, core.ReasonShadowed, 4, 9, 0)
	wantDecision(t, "ann's POST", must.Get(l.PeekRequest(user("ann", "POST"), 1))(t), true, core.ReasonShadowed, 9, 10, 9, 0)
	wantDecision(t, "another's tier", must.Get(l.PeekRequest(user("pro", "POST"), 1))(t), true, core.ReasonShadowed, 100, 10, 10, 0)
	check.Equal(t, "nobody's", outcomeOf(must.Get(l.PeekRequest(&request{}, 1))(t)), outcome{false, core.ReasonMissingKey})
	check.Equal(t, "bypassed", outcomeOf(must.Get(l.PeekRequest(user("ann", "TRACE"), 1))(t)), outcome{true, core.ReasonBypassed})
	out := newLimiter(t, core.Config{Store: newFlaky(true), Limits: []core.Limit{everyone(1).OnOutage(core.Allow)}})
	if _, err := out.PeekRequest(&request{}, 1); err == nil {
		t.Error("in an outage: no error")
	}
}
