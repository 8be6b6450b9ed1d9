package otel_test

import (
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

// Each request under a limit that clients divide counts by how its client stands.
func TestStandingsAreCounted(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{
		core.PerHour(10).By(keyfuncs.Everyone()).Named("capacity").Fair(core.Shares{By: keyfuncs.User("user"), Of: func(r keyfuncs.Request) core.Share {
			if r.Value("user") == "small" {
				return core.Share{Maximum: 1}
			}
			return core.Share{}
		}}),
	}})
	for _, user := range []string{"small", "small", "heavy", "heavy", "heavy", "heavy", "heavy", "heavy", "heavy", "heavy", "heavy", "heavy"} {
		l.Allow(keyfuncs.Values{"user": user})
	}
	got := seen.metrics(t)
	for _, want := range []string{"decision=denied limit=capacity standing=over_maximum", "decision=allowed limit=capacity standing=within_share", "decision=denied limit=capacity standing=over_share"} {
		if n := got["weblimit.shares{"+want+"}"]; n == "" || n == "0" {
			t.Errorf("there is no %s in %q", want, got)
		}
	}
}
