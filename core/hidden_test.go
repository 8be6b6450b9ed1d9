package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A hidden limit is enforced, and clients learn nothing of it but that, and when to try again.
func TestAHiddenLimitIsNotTold(t *testing.T) {
	t.Parallel()
	shown := everyone(10).Named("shown").WarnAt(0.99).Soft(9)
	hidden := everyone(3).Named("secret").WarnAt(0.1).Soft(1).Hidden()
	month := core.PerMonth(3, time.UTC).By(keyfuncs.Everyone()).Named("secret").Hidden()
	for name, tt := range map[string]struct {
		limit   core.Limit
		headers core.Headers
	}{
		"draft 11": {hidden, everyDialect}, "delta": {hidden, core.XRateLimitDelta}, "draft 07": {hidden, core.Draft07},
		"quota": {month, core.Draft11 | core.XQuota}, "by a tier": {hidden.Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(3) }), everyDialect},
		"by its class": {hidden.KeepFree(0.2, keyfuncs.Methods("GET")), everyDialect},
	} {
		store, _ := at()
		other, _ := at() // with the same time
		l := newLimiter(t, core.Config{Store: store, Headers: tt.headers, Limits: []core.Limit{tt.limit, shown}})
		alone := newLimiter(t, core.Config{Store: other, Headers: tt.headers, Limits: []core.Limit{shown}})
		var denied core.Decision
		for i := range 5 {
			d := l.Allow(&request{method: "GET"})
			if !d.Allowed {
				denied = d
				break
			}
			want := alone.Allow(&request{method: "GET"})
			check.Equal(t, name+": headers of request "+string(rune('0'+i)), fmt.Sprint(told(d)), fmt.Sprint(told(want)))
		}
		check.Equal(t, name+": denied by", binding(denied), "secret")
		check.Equal(t, name+": hidden", denied.Results()[0].Hidden, true)
		body, _ := denied.AppendProblem(nil, "")
		text := string(body)
		for field, values := range told(denied) {
			if field == "Retry-After" {
				continue
			}
			text += "\n" + field + ": " + strings.Join(values, "\n")
		}
		if strings.Contains(text, "secret") || strings.Contains(text, "used up") || strings.Contains(text, "violated") {
			t.Errorf("%s: told\n%s", name, text)
		}
		if told(denied).Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
		for _, field := range []string{"X-Ratelimit-Remaining", "X-Quota-Remaining", "Ratelimit-Remaining", "X-Ratelimit-Warning"} {
			check.Equal(t, name+": "+field+" of the denial", told(denied).Get(field), "")
		}
	}
}

// A choice is hidden as a whole, or in part.
func TestAHiddenChoiceIsNotTold(t *testing.T) {
	t.Parallel()
	plan, credits := everyone(1).FixedWindow().Named("plan"), everyone(1).FixedWindow().Named("credits")
	for name, tt := range map[string]struct {
		choice core.Limit
		told   string // after the first request
	}{
		"all of it": {core.First(plan, credits).Hidden(), ""}, "the second": {core.First(plan, credits.Hidden()), `"plan"`}, "the first": {core.First(plan.Hidden(), credits), ""},
	} {
		l := limiterAt(t, tt.choice)
		field, _, _ := strings.Cut(told(l.Allow(&request{})).Get("RateLimit"), ";")
		check.Equal(t, name, field, tt.told)
		l.Allow(&request{})
		denied := l.Allow(&request{})
		check.Equal(t, name+": denied", denied.Allowed, false)
		body, _ := denied.AppendProblem(nil, "")
		for _, limit := range []string{"plan", "credits"} {
			if hidden := tt.told != `"`+limit+`"` && name != "the first" || name == "the first" && limit == "plan"; hidden && strings.Contains(string(body), limit) {
				t.Errorf("%s: the body names %s: %s", name, limit, body)
			}
		}
	}
}

// Headers that come near a limit must not say that a hidden one is near.
func TestAHiddenLimitIsNotNear(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, core.Config{Store: core.NewMemory(), HeadersWhen: core.NearLimit, Limits: []core.Limit{everyone(1).Named("secret").Hidden(), everyone(1000).Named("shown")}})
	check.Equal(t, "headers with nothing left of the hidden limit", len(told(l.Allow(&request{}))), 0)
}
