package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestStatusOfALimit(t *testing.T) {
	t.Parallel()
	plan := core.PerMonth(2, time.UTC).By(keyfuncs.Everyone()).Named("plan").CostBy(costing).Status(402)
	rate := core.PerSecond(1).By(keyfuncs.Everyone()).Named("rate")
	for name, tt := range map[string]struct {
		limits []core.Limit
		before []*request
		r      *request
		want   int
	}{
		"the plan is used up":            {[]core.Limit{plan}, []*request{cost(2)}, cost(1), 402},
		"a rate denies beside it":        {[]core.Limit{plan, rate}, []*request{cost(1)}, cost(1), 429},
		"both deny, the plan for longer": {[]core.Limit{plan, rate}, []*request{cost(2)}, cost(1), 402},
		"more than the plan ever has":    {[]core.Limit{plan}, nil, cost(3), 402},
		"by a tier":                      {[]core.Limit{plan.Tiers(func(keyfuncs.Request) core.Limit { return core.PerMonth(1, time.UTC) })}, []*request{cost(1)}, cost(1), 402},
		"hidden":                         {[]core.Limit{plan.Hidden()}, []*request{cost(2)}, cost(1), 402},
		"blocked": {
			[]core.Limit{everyone(1).Status(402).Penalty(core.Block{After: 1, Within: time.Hour, For: 48 * time.Hour})},
			[]*request{cost(1), cost(1)},
			cost(1), 429,
		},
		"a key is missing": {[]core.Limit{core.PerHour(1).By(keyfuncs.User("user")).OnMissingKey(core.DenyRequest).Status(402)}, nil, &request{}, 401},
	} {
		l := limiterAt(t, tt.limits...)
		for _, r := range tt.before {
			l.Allow(r)
		}
		d := l.Allow(tt.r)
		check.Equal(t, name+": allowed", d.Allowed, false)
		check.Equal(t, name, d.Status(), tt.want)
		body, _ := d.AppendProblem(nil, "")
		if want := `"status":` + decimalOf(tt.want); !strings.Contains(string(body), want) {
			t.Errorf("%s: the body %s has no %s", name, body, want)
		}
		if tt.want == 402 && !strings.Contains(string(body), "#quota-exceeded") {
			t.Errorf("%s: the type of %s", name, body)
		}
	}
}

// Nobody knows in an outage whether the plan is used up, so nobody is asked to pay.
func TestAnOutageIsNoEndOfAPlan(t *testing.T) {
	t.Parallel()
	for want, action := range map[int]core.OutageAction{429: core.Local, 503: core.Deny} {
		l := newLimiter(t, core.Config{Store: newFlaky(true), Limits: []core.Limit{everyone(1).Status(402).OnOutage(action)}})
		l.Allow(&request{})
		d := l.Allow(&request{})
		check.All(t, "in an outage", []any{d.Allowed, d.Status()}, false, want)
	}
}

func decimalOf(n int) string {
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

func TestStatusesThatCanNotBe(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{0: "from 400 to 499, got 0", 200: "got 200", 500: "got 500", 401: "can't be 401"} {
		if _, err := everyone(1).Status(status).Rule(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Status(%d): %v, want an error with %q", status, err, want)
		}
	}
	_, err := everyone(1).Status(402).Status(403).Rule()
	check.Equal(t, "twice", err.Error(), `weblimit: limit "default": Status: there twice, and the first would do nothing`)
}
