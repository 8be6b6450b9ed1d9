package core_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// What others have written stays, and a name is there once.
func TestMembersOfOneName(t *testing.T) {
	t.Parallel()
	const policy, field = `"api";q=60;w=60`, `"api";r=5;t=30`
	limits := []core.Limit{core.PerMinute(60).By(keyfuncs.Everyone()).Named("api")}
	allowed := core.Result{Allowed: true, Remaining: 5, Window: 30 * time.Second}
	denied := core.Result{Remaining: 5, Window: 30 * time.Second, RetryAfter: time.Second}
	for _, tt := range []struct {
		name                  string
		result                core.Result
		policies, fields      []string
		wantPolicy, wantField string
	}{
		{"more is left there", allowed, []string{`"api";q=9;w=1`}, []string{`"api";r=6;t=99`}, policy, field},
		{"less is left there", allowed, []string{`"api";q=9;w=1`}, []string{`"api";r=4;t=1`}, `"api";q=9;w=1`, `"api";r=4;t=1`},
		{"as much is left there, for longer", allowed, []string{`"api";q=9`}, []string{`"api";r=5;t=31`}, `"api";q=9`, `"api";r=5;t=31`},
		{"as much is left there, not for as long", allowed, []string{`"api";q=9`}, []string{`"api";r=5;t=29`}, policy, field},
		{"a denial replaces less", denied, []string{`"api";q=9;w=1`}, []string{`"api";r=4;t=99`}, policy, field},
		{"between others, on several lines", allowed, []string{`"a";q=1`, `"api";q=9,"b";q=2`}, []string{`"a";r=1;t=1, "api";r=9;t=1`, `"b";r=2;t=1`}, `"a";q=1, ` + policy + `, "b";q=2`, `"a";r=1;t=1, ` + field + `, "b";r=2;t=1`},
		{"twice there", allowed, []string{`"api";q=9, "api";q=8`}, []string{`"api";r=9;t=1, "api";r=3;t=1`}, policy, field},
		{"a name that begins alike", allowed, []string{`"apis";q=9`}, []string{`"apis";r=9;t=1`}, `"apis";q=9, ` + policy, `"apis";r=9;t=1, ` + field},
		{"a parameter that is called so", allowed, []string{`"x";q=9;qu="api"`}, []string{`"x";r=9;t=1`}, `"x";q=9;qu="api", ` + policy, `"x";r=9;t=1, ` + field},
		{"a string with a comma and quotes", allowed, []string{`"x";c="a\", \"api\";q=1, b"`}, []string{`"x";r=9`}, `"x";c="a\", \"api\";q=1, b", ` + policy, `"x";r=9, ` + field},
		{"no number is left there", allowed, []string{`"api"`}, []string{`"api";r=many`}, policy, field},
		{"only the policy is there", allowed, []string{`"api";q=9`}, nil, policy, field},
		{"only the field is there", allowed, nil, []string{`"api";r=3;t=1`}, policy, `"api";r=3;t=1`},
		{"another syntax", allowed, []string{`60;w=60;comment="api`}, []string{"limit=60, remaining=9, reset=1"}, `60;w=60;comment="api, ` + policy, "limit=60, remaining=9, reset=1, " + field},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"Ratelimit-Policy": tt.policies, "Ratelimit": tt.fields}
			d := decided(t, limits, tt.result)
			d.SetHeaders(h)
			check.Equal(t, "RateLimit-Policy", strings.Join(h["Ratelimit-Policy"], "\n"), tt.wantPolicy)
			check.Equal(t, "RateLimit", strings.Join(h["Ratelimit"], "\n"), tt.wantField)
		})
	}
}
