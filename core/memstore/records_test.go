package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Losing an operation's mark costs its client a second charge. Losing the bucket of a
// client that has nothing left grants it a whole budget.
func TestMarksAreForgottenBeforeClientsWithNothingLeft(t *testing.T) {
	t.Parallel()
	m, _ := small(t, 256)
	oncely := func(n int64) *core.Rule {
		return mustRule(t, core.PerHour(n).OncePer(keyfuncs.Header("Idempotency-Key"), 2*time.Hour).Named("once"))
	}
	rule, ample := oncely(2), oncely(1<<40)
	for i := range 100 {
		take(t, m, fmt.Sprint("blocked", i), rule, 2)
	}
	results := make([]core.Result, 1)
	for i := range 5000 {
		check := core.Check{Key: []byte("user:alice"), Rule: ample, Cost: 1, Once: fmt.Append(nil, i)}
		if err := m.Take(t.Context(), []core.Check{check}, results); err != nil || !results[0].Charged {
			t.Fatalf("operation %d: %+v, %v", i, results[0], err)
		}
	}
	if n := m.Len(); n > 256 {
		t.Errorf("%d buckets, want at most 256", n)
	}
	for i := range 100 {
		if take(t, m, fmt.Sprint("blocked", i), rule, 1).Allowed {
			t.Fatalf("operations pushed out a client that had nothing left")
		}
	}
}

// A mark counts as half used: throw-away keys that use less go first.
func TestThrowAwayKeysDoNotPushOutMarks(t *testing.T) {
	t.Parallel()
	m, _ := small(t, 256)
	rule := mustRule(t, core.PerHour(1<<40).OncePer(keyfuncs.Header("Idempotency-Key"), 2*time.Hour).Named("once"))
	operate := func(i int) core.Result {
		results := make([]core.Result, 1)
		check := core.Check{Key: []byte("user:alice"), Rule: rule, Cost: 1 << 39, Once: fmt.Append(nil, i)}
		must.OK(t, m.Take(t.Context(), []core.Check{check}, results))
		return results[0]
	}
	operate(1)
	operate(2)
	flood := mustRule(t, core.PerHour(10).Named("flood"))
	for i := range 5000 {
		take(t, m, fmt.Sprint("throw-away", i), flood, 1)
	}
	for i := 1; i <= 2; i++ {
		if got := operate(i); !got.Repeated {
			t.Errorf("operation %d was forgotten for a throw-away key: %+v", i, got)
		}
	}
}

// Throw-away keys push out neither a blocked client nor one that is close to a block.
func TestThrowAwayKeysDoNotPushOutABlock(t *testing.T) {
	t.Parallel()
	m, clock := small(t, 2048)
	rule := mustRule(t, core.PerMinute(2).SlidingLog().Named("login").
		Penalty(core.Block{After: 3, Within: time.Hour, For: 10 * time.Minute}))
	for range 5 {
		take(t, m, "abuser", rule, 1)
	}
	for range 4 {
		take(t, m, "close", rule, 1)
	}
	flood := mustRule(t, core.PerHour(10).Named("flood"))
	for i := range 20_000 {
		take(t, m, fmt.Sprint("throw-away", i), flood, 1)
	}
	if got := take(t, m, "abuser", rule, 1); !got.Blocked {
		t.Errorf("the block is gone: %+v", got)
	}
	if got := take(t, m, "close", rule, 1); !got.Blocked {
		t.Errorf("denials are forgotten: %+v", got)
	}
	clock.Advance(10 * time.Minute) // a new flood against what is left of the block: that it was one
	for i := range 20_000 {
		take(t, m, fmt.Sprint("another", i), flood, 1)
	}
	for range 5 {
		take(t, m, "abuser", rule, 1)
	}
	if got := take(t, m, "abuser", rule, 1); got.RetryAfter != 20*time.Minute {
		t.Errorf("the second block ends in %v, want 20m", got.RetryAfter)
	}
}
