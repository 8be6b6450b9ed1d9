package core_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// twice is a request with a header on two lines.
func twice(name string) *request {
	return &request{peer: "192.0.2.7", lines: map[string][]string{name: {"a-secret", "another"}}}
}

const refusal = `{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request must have one `

// Trap 50. The store is not asked, so that nothing is charged and no outage matters.
func TestTrap50AnAmbiguousKeyIsDenied(t *testing.T) {
	t.Parallel()
	byHeader := core.PerHour(5).By(keyfuncs.Header("X-Tenant")).Named("tenant")
	all := core.PerHour(5).By(keyfuncs.Everyone()).Named("all")
	for _, tt := range []struct {
		name   string
		limits []core.Limit
		down   bool
		what   string
	}{
		{"alone", []core.Limit{byHeader}, false, "X-Tenant header"},
		{"that would be shared", []core.Limit{byHeader.OnMissingKey(core.ShareBucket)}, false, "X-Tenant header"},
		{"that would be denied", []core.Limit{byHeader.OnMissingKey(core.DenyRequest)}, false, "X-Tenant header"},
		{"that would be skipped", []core.Limit{byHeader.OnMissingKey(core.SkipLimit)}, false, "X-Tenant header"},
		{"behind another limit", []core.Limit{all, byHeader}, false, "X-Tenant header"},
		{"in front of another limit", []core.Limit{byHeader, all}, false, "X-Tenant header"},
		{"of several parts", []core.Limit{core.PerHour(5).By(keyfuncs.ClientIP(), keyfuncs.Header("X-Tenant"))}, false, "X-Tenant header"},
		{"before a fallback", []core.Limit{core.PerHour(5).By(keyfuncs.First(keyfuncs.Header("X-Tenant"), keyfuncs.ClientIP()))}, false, "X-Tenant header"},
		{"with a cost and tiers", []core.Limit{byHeader.CostBy(func(keyfuncs.Request) int64 { return -1 }).Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(1) })}, false, "X-Tenant header"},
		{"of an operation", []core.Limit{all.OncePer(keyfuncs.Header("X-Tenant"), time.Hour)}, false, "X-Tenant header"},
		{"with a delay", []core.Limit{byHeader.Wait(time.Second)}, false, "X-Tenant header"},
		{"while the store is out", []core.Limit{byHeader.OnOutage(core.Allow)}, true, "X-Tenant header"},
		{"of an operation while the store is out", []core.Limit{all.OnOutage(core.Allow).OncePer(keyfuncs.Header("X-Tenant"), time.Hour)}, true, "X-Tenant header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLimiter(t, core.Config{Store: newFlaky(tt.down), Limits: tt.limits})
			d := l.Allow(twice("X-Tenant"))
			check.Equal(t, "decided", outcomeOf(d), outcome{false, core.ReasonAmbiguousKey})
			check.All(t, "what is ambiguous, status, wait and error", []any{d.Ambiguous(), d.Status(), d.RetryAfter, d.Err}, tt.what, 400, time.Duration(0), nil)
			check.Equal(t, "body", problemBody(d), refusal+tt.what+`."}`)
			var log bytes.Buffer
			slog.New(slog.NewTextHandler(&log, nil)).Info("decided", "decision", d)
			if s := log.String(); !strings.Contains(s, `decision.reason="ambiguous key" decision.ambiguous="X-Tenant header"`) || strings.Contains(s, "secret") {
				t.Errorf("logged %s", s)
			}
			// Nothing was charged.
			if d := l.Allow(&request{peer: "192.0.2.7", headers: map[string]string{"X-Tenant": "a-secret"}}); !tt.down && tt.name != "with a cost and tiers" {
				b, _ := d.Binding()
				check.Equal(t, "left after a request with one", b.Remaining, 4)
			}
		})
	}
}

func TestTrap50AnAmbiguousKeyOfAFallback(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, core.Config{
		Store:    newFlaky(true),
		Limits:   []core.Limit{core.PerHour(5).By(keyfuncs.Everyone()).Named("all")},
		Fallback: core.Fallback{Limits: []core.Limit{core.PerHour(5).By(keyfuncs.Header("X-Tenant")).Named("tenant").OnMissingKey(core.SkipLimit)}},
	})
	if d := l.Allow(twice("X-Tenant")); d.Allowed || d.Reason != core.ReasonAmbiguousKey || d.Ambiguous() != "X-Tenant header" {
		t.Errorf("decided %v: %v, %q", d.Allowed, d.Reason, d.Ambiguous())
	}
}

func TestTrap50AnAmbiguousKeyInShadowMode(t *testing.T) {
	t.Parallel()
	trial := core.PerHour(5).By(keyfuncs.Header("X-Tenant")).Named("trial").Shadow()
	all := core.PerHour(5).By(keyfuncs.Everyone()).Named("all")
	for name, limits := range map[string][]core.Limit{
		"alone":     {trial},
		"in front":  {trial, all},
		"behind":    {all, trial},
		"operation": {all, core.PerHour(9).By(keyfuncs.ClientIP()).Named("trial").OncePer(keyfuncs.Header("X-Tenant"), time.Hour).Shadow()},
	} {
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Headers: everyDialect, Limits: limits})
		for range 2 {
			d := l.Allow(twice("X-Tenant"))
			if !d.Allowed || d.Reason != core.ReasonShadowed || d.Ambiguous() != "" {
				t.Errorf("%s: decided %v: %v, %q", name, d.Allowed, d.Reason, d.Ambiguous())
			}
			if name == "alone" {
				wantNothingTold(t, name, d)
			}
		}
		check.Equal(t, name+": then decided", l.Allow(&request{peer: "192.0.2.7"}).Reason, core.ReasonWithinLimit)
	}
}

func TestAmbiguousKeysDoNotConcernAllowKey(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Header("X-Tenant"))}})
	wantAllowed(t, "a key instead of a request", l.AllowKey(context.Background(), "a, b", 1))
}

func TestARequestMayNotHaveAParameterOfAnyNameTwice(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(1).By(keyfuncs.APIKey(`?"k"`))}})
	d := l.Allow(twiceInQuery{&request{}})
	body, _ := d.AppendProblem(nil, "")
	check.Equal(t, "body", string(body), refusal+`\"k\" query parameter."}`)
}

// twiceInQuery has every parameter twice.
type twiceInQuery struct{ *request }

func (twiceInQuery) Query(_ string, i int) (string, bool) { return "a", i < 2 }
