package quota_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota"
	"github.com/weblimit/weblimit/usage"
)

// A client is told what the book has of its own tenant, and nothing of others.
func TestAClientIsToldItsDays(t *testing.T) {
	t.Parallel()
	book := quota.InMemory(quota.Config{Store: core.NewMemory()})
	defer book.Close(t.Context())
	tenant := keyfuncs.Tenant("tenant")
	limiter := must.Get(core.New(core.Config{Store: book.Store(), Limits: []core.Limit{
		book.PerTenant(core.PerMonth(1000, time.UTC).Named("plan"), tenant), core.PerHour(100).By(tenant).Named("rate"),
	}}))(t)
	for range 3 {
		limiter.Allow(keyfuncs.Values{"tenant": "acme"})
	}
	limiter.Allow(keyfuncs.Values{"tenant": "other"})
	must.OK(t, book.Flush(t.Context()))
	u := usage.New(usage.Config{Limiters: []*core.Limiter{limiter}, Days: book.UsedByDay})
	for name, want := range map[string]int64{"acme": 3, "other": 1, "nobody": 0} {
		report, _, err := u.Report(keyfuncs.Values{"tenant": name})
		must.OK(t, err)
		plan := report.Limits["plan"]
		var days int64
		for _, day := range plan.Days {
			days += day.Used
		}
		check.All(t, name+": used, by day, incomplete, days of the rate", []any{plan.Used, days, report.Incomplete, len(report.Limits["rate"].Days)}, want, want, false, 0)
	}
	unknown, err := book.UsedByDay(t.Context(), "no-such-limit", "tenant:acme", time.Now())
	check.All(t, "a limit that is not in the book", []any{len(unknown), err}, 0, nil)
}
