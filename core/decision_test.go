package core_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
)

func TestReasonStrings(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for reason, want := range map[core.Reason]string{
		core.ReasonUndecided:     "undecided",
		core.ReasonWithinLimit:   "within limit",
		core.ReasonLimitExceeded: "limit exceeded",
		core.ReasonInvalidCost:   "invalid cost",
		core.ReasonMissingKey:    "missing key",
		core.ReasonBypassed:      "bypassed",
		core.ReasonShadowed:      "shadowed",
		core.ReasonOutageAllowed: "outage allowed",
		core.ReasonOutageDenied:  "outage denied",
		core.ReasonOutageLocal:   "outage local",
		core.ReasonAmbiguousKey:  "ambiguous key",
		core.ReasonNeverFits:     "never fits",
		math.MaxUint8:            "unknown reason",
	} {
		if got := reason.String(); got != want || seen[got] {
			t.Errorf("reason %d reads %q, want %q", uint8(reason), got, want)
		}
		seen[want] = true
	}
}

func TestAlgorithmStrings(t *testing.T) {
	t.Parallel()
	for algorithm, want := range map[store.Algorithm]string{
		store.TokenBucket:   "token bucket",
		store.FixedWindow:   "fixed window",
		store.SlidingWindow: "sliding window",
		store.SlidingLog:    "sliding log",
		0:                   "unknown algorithm",
		math.MaxUint8:       "unknown algorithm",
	} {
		check.Equal(t, fmt.Sprint("algorithm ", uint8(algorithm)), algorithm.String(), want)
	}
}

// logged returns a decision as a JSON log has it.
func logged(t testing.TB, d core.Decision) string {
	t.Helper()
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key != "decision" {
				return slog.Attr{}
			}
			return a
		},
	})).Info("", "decision", d)
	return strings.TrimSpace(out.String())
}

func TestDecisionsInLogs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	wait := core.Result{Remaining: 3, RetryAfter: 1500 * time.Millisecond}
	limits := []core.Limit{everyone(5).Named("a"), everyone(5).Named("b")}
	for _, tt := range []struct {
		name     string
		decision core.Decision
		want     string
	}{
		{"allowed", decided(t, limits, core.Result{Allowed: true, Remaining: 4}, core.Result{Allowed: true, Remaining: 2}), `{"allowed":true,"reason":"within limit","limit":"b","remaining":2}`},
		{"denied", decided(t, limits, wait, core.Result{Allowed: true}), `{"allowed":false,"reason":"limit exceeded","limit":"a","remaining":3,"retry_after":1500000000}`},
		{"never possible", decided(t, limits, wait, core.Result{Remaining: 5}), `{"allowed":false,"reason":"never fits","limit":"b","remaining":5}`},
		{"a negative cost", limiterOn(t, core.NewMemory(), limits...).AllowKey(ctx, "k", -1), `{"allowed":false,"reason":"invalid cost"}`},
		{"allowed in an outage", limiterOn(t, newFlaky(true), everyone(5).OnOutage(core.Allow)).AllowKey(ctx, "k", 1), `{"allowed":true,"reason":"outage allowed","error":"connection refused"}`},
		{"denied in an outage", limiterOn(t, newFlaky(true), everyone(5).OnOutage(core.Deny)).AllowKey(ctx, "k", 1), `{"allowed":false,"reason":"outage denied","retry_after":1000000000,"error":"connection refused"}`},
		{"decided here in an outage", limiterOn(t, newFlaky(true), everyone(5)).AllowKey(ctx, "k", 1), `{"allowed":true,"reason":"outage local","limit":"default","remaining":4,"error":"connection refused"}`},
		{"the zero decision", core.Decision{}, `{"allowed":false,"reason":"undecided"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, "logged", logged(t, tt.decision), `{"decision":`+tt.want+`}`)
		})
	}
}

func TestDecisionInContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	base, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "kept"))
	if d, ok := core.FromContext(base); ok || d.Allowed {
		t.Errorf("a context without a decision has %+v", d)
	}
	limits := []core.Limit{everyone(5).Named("outer")}
	outer := core.NewContext(base, decided(t, limits, core.Result{Allowed: true, Remaining: 4}))
	inner := core.NewContext(outer, decided(t, []core.Limit{everyone(5).Named("inner")}, core.Result{RetryAfter: time.Second}))

	d, _ := core.FromContext(outer)
	wantDecision(t, "outer", d, true, core.ReasonWithinLimit, 4)
	check.Equal(t, "what binds", binding(d), "outer")
	d, _ = core.FromContext(context.WithValue(inner, key{}, "covered"))
	wantDecision(t, "inner", d, false, core.ReasonLimitExceeded, 0)
	check.Equal(t, "what binds nearest to the handler", binding(d), "inner")
	d.Results()[0].Remaining = 99
	d, _ = core.FromContext(inner)
	wantDecision(t, "inner, after a handler wrote to its copy", d, false, core.ReasonLimitExceeded, 0)

	check.All(t, "values of the context", []any{inner.Value(key{}), inner.Value("other")}, "kept", nil)
	cancel()
	check.Is(t, "after cancel", inner.Err(), context.Canceled)
}

// A handler may find no decision, and use what FromContext returned all the same.
func TestTheZeroDecisionIsHarmless(t *testing.T) {
	t.Parallel()
	var d core.Decision
	check.Equal(t, "results", len(d.Results()), 0)
	b, ok := d.Binding()
	check.All(t, "what binds", []any{b, ok}, core.LimitResult{}, false)
	check.All(t, "it allows, and its status", []any{d.Allowed, d.Status()}, false, 429)
	d.SetHeaders(nil)
	d.SetHeaders(adapter.HeaderMap(nil))
	wantHeaders(t, &d, "", "", "")
	wantDecision(t, "from a context", fromContext(core.NewContext(context.Background(), d)), false, core.ReasonUndecided)
}

func fromContext(ctx context.Context) core.Decision {
	d, _ := core.FromContext(ctx)
	return d
}
