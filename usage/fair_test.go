package usage_test

import (
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/usage"
)

// A client of a limit that clients divide is told its own part, and nothing of what others have used.
func TestUsageOfAShare(t *testing.T) {
	t.Parallel()
	l := must.Get(core.New(core.Config{Store: memoryAt(noon), Limits: []core.Limit{core.PerMinute(100).By(keyfuncs.Everyone()).Named("capacity").Fair(core.Shares{
		By: keyfuncs.User("user"), Of: func(r keyfuncs.Request) core.Share {
			if r.Value("user") == "small" {
				return core.Share{Maximum: 5}
			}
			return core.Share{}
		},
	})}}))(t)
	u := usage.New(usage.Config{Limiters: []*core.Limiter{l}})
	told := func(user string) usage.Limit {
		report, _, err := u.Report(of(user))
		must.OK(t, err)
		return report.Limits["capacity"]
	}
	l.Allow(of("light"))
	for range 100 {
		l.Allow(of("heavy"))
	}
	heavy, light, small := told("heavy"), told("light"), told("small")
	check.All(t, "the heavy one", []any{heavy.Used == heavy.Share, heavy.Remaining, heavy.RetryAfter > 0, heavy.Limit}, true, 0, true, 100)
	check.All(t, "the light one", []any{light.Remaining > 10, light.Used < light.Share, light.RetryAfter}, true, true, 0)
	check.All(t, "one with a bound", []any{small.Limit, small.Window, small.Remaining}, 100, 60, 5)
}
