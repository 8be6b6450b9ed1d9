package usage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/usage"
)

func TestForecast(t *testing.T) {
	t.Parallel()
	day := func(n int) string { return fmt.Sprintf("2026-11-%02d", n) }
	for name, tt := range map[string]struct {
		now  time.Time
		used int64
		days map[string]int64
		want string // of the forecast, "null" for none
	}{
		"ten a day, and 19.5 days are left":      {noon, 105, map[string]int64{day(4): 10, day(5): 10, day(6): 10, day(7): 10, day(8): 10, day(9): 10, day(10): 10, day(11): 5}, `{"used":300}`},
		"days before the last seven don't count": {noon, 105, map[string]int64{day(3): 900, day(10): 7}, `{"used":125}`},
		"days without use do":                    {noon, 105, map[string]int64{day(10): 70}, `{"used":300}`},
		"it runs out in two days":                {noon, 980, map[string]int64{day(4): 10, day(5): 10, day(6): 10, day(7): 10, day(8): 10, day(9): 10, day(10): 10}, `{"used":1175,"runs_out":"2026-11-13"}`},
		"it has run out":                         {noon, 1000, map[string]int64{day(10): 1}, `{"used":1003,"runs_out":"2026-11-11"}`},
		"it has, and nothing was used lately":    {noon, 1000, map[string]int64{}, `{"used":1000,"runs_out":"2026-11-11"}`},
		"more was given back than used":          {noon, 10, map[string]int64{day(10): -50}, `{"used":10}`},
		"nothing is known of the tenant":         {noon, 0, map[string]int64{}, `{"used":0}`},
		"the first day":                          {time.Date(2026, 11, 1, 23, 0, 0, 0, time.UTC), 10, map[string]int64{day(1): 10}, `null`},
		"the second day counts the first":        {time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), 10, map[string]int64{day(1): 10, "2026-10-31": 500}, `{"used":300}`},
		"the last instant":                       {time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).Add(-time.Microsecond), 10, map[string]int64{day(30): 10, day(29): 7}, `{"used":11}`},
		"the limit is not in the book":           {noon, 10, nil, `null`},
		"the largest numbers":                    {noon, 1000, map[string]int64{day(10): 1 << 51}, `{"used":6272870909552763,"runs_out":"2026-11-11"}`},
	} {
		l := core.ForLimits(memoryAt(tt.now), []core.Limit{core.PerMonth(1000, time.UTC).By(keyfuncs.User("user")).Named("plan")})
		if tt.used > 0 {
			l.AllowKey(t.Context(), "user:ann", tt.used)
		}
		u := usage.New(usage.Config{Limiters: []*core.Limiter{l}, Days: func(_ context.Context, limit, tenant string, at time.Time) (map[string]int64, error) {
			check.All(t, name+": asked for", []any{limit, tenant, at}, "plan", "user:ann", time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
			return tt.days, nil
		}})
		report, _, err := u.Report(of("ann"))
		must.OK(t, err)
		plan := report.Limits["plan"]
		check.Equal(t, name, string(must.Get(json.Marshal(plan.Forecast))(t)), tt.want)
		check.Equal(t, name+": days", len(plan.Days), len(tt.days))
	}
}

// A book that does not answer is said, and the limits are told all the same. Days are of keys that belong to one client.
func TestDaysAreOfOneClient(t *testing.T) {
	t.Parallel()
	month := func(name string, key keyfuncs.Func) core.Limit {
		return core.PerMonth(1000, time.UTC).By(key).Named(name)
	}
	l := core.ForLimits(memoryAt(noon), []core.Limit{
		month("user", keyfuncs.User("user")), month("all", keyfuncs.Everyone()), month("address", keyfuncs.ClientIP()), byUser(3).Named("minute"),
		month("joined", keyfuncs.Join(keyfuncs.User("user"), keyfuncs.ClientIP())),
	})
	var asked []string
	u := usage.New(usage.Config{Limiters: []*core.Limiter{l}, Days: func(ctx context.Context, limit, tenant string, _ time.Time) (map[string]int64, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a book may take as long as it likes")
		}
		asked = append(asked, limit+" "+tenant)
		return nil, errors.New("away")
	}})
	report, _, err := u.Report(of("ann"))
	must.OK(t, err)
	check.Slices(t, "asked", asked, []string{"user user:ann"})
	check.All(t, "told", []any{len(report.Limits), report.Incomplete, report.Limits["user"].Forecast == nil}, 5, true, true)
	asked = nil
	_, _, err = u.Report(keyfuncs.Values{})
	must.OK(t, err)
	check.Equal(t, "asked for requests without a user, which share a bucket", len(asked), 0)
}
