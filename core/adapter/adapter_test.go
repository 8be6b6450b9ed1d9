package adapter_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestContextsInOneAnother(t *testing.T) {
	t.Parallel()
	limits := func(name string) core.Limit { return core.PerDay(100).By(keyfuncs.Everyone()).Named(name) }
	store := core.NewMemory()
	estimated := core.ForLimits(store, []core.Limit{limits("estimated").Estimate(10)})
	plain := core.ForLimits(store, []core.Limit{limits("plain")})

	outer := &adapter.Context{Context: context.Background(), Decision: estimated.AllowKey(t.Context(), "k", 10)}
	inner := &adapter.Context{Context: outer, Decision: plain.AllowKey(t.Context(), "k", 1)}
	if d, ok := core.FromContext(inner); !ok || d.Results()[0].Rule.Name != "plain" {
		t.Errorf("the decision nearest to the handler is %v", d.Results())
	}
	if err := core.Spend(inner, 30); err != nil { // finds the estimate of the limiter around
		t.Error(err)
	}
	if !adapter.New(estimated, "test").Reserved(&outer.Decision) || adapter.New(plain, "test").Reserved(&inner.Decision) || adapter.ReadsOutcome(&outer.Decision) {
		t.Error("only an estimate is reserved, and it reads no outcome")
	}
	outer.Decision.Settle(core.Outcome{})
	d := estimated.AllowKey(t.Context(), "k", 0)
	check.Equal(t, "units that remain", d.Results()[0].Remaining, 70)
}

func TestLimiterInThisProcess(t *testing.T) {
	t.Parallel()
	memory := core.NewMemory()
	l := adapter.New(core.ForLimits(struct{ core.Store }{memory}, []core.Limit{core.PerDay(1).By(keyfuncs.Everyone())}), "test")
	check.All(t, "a wrapped store in memory: in process, and limits", []any{l.InProcess(), l.Limits()}, true, 1)
}

// Each limiter reads the settings again, so what the application does with its own slices and maps must not reach them.
func TestSettingsStayAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	config := core.Config{
		Store: core.NewMemory(), Silence: []core.Advice{"WL001"},
		Bypass:  []keyfuncs.Condition{keyfuncs.Methods("OPTIONS")},
		Details: map[string]func(core.Decision) string{"de": func(core.Decision) string { return "zu viel" }},
	}
	settings := adapter.NewShared(config, func(l *core.Limiter) *core.Limiter { return l })
	config.Bypass[0] = keyfuncs.Methods("GET")
	delete(config.Details, "de")
	l := settings.Limiter(core.PerHour(1).By(keyfuncs.Everyone()))
	for range 2 {
		if d := l.Allow(keyfuncs.Values{}); d.Reason == core.ReasonBypassed {
			t.Error("a condition that was put in later lets requests through")
		}
	}
	d := l.Allow(keyfuncs.Values{})
	body, language := d.AppendProblem(nil, "de")
	check.All(t, "the language of a denial", []any{language, strings.Contains(string(body), "zu viel")}, "de", true)
}
