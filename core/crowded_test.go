package core_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// namesIn returns the names of the members of a field.
func namesIn(field string) (names []string) {
	for member := range strings.SplitSeq(field, ", ") {
		name, _, _ := strings.Cut(member, ";")
		names = append(names, strings.Trim(name, `"`))
	}
	return names
}

// A proxy takes a response whose header is larger than its buffer for a failure. So the fields are bounded, however many limits there are.
func TestFieldsOfManyLimitsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 768
	for _, n := range []int{1, 5, 12, 25, 61, 255} {
		var limits []core.Limit
		for i := range n {
			quota := int64(1000 + i)
			if i == n-2 {
				quota = 3 // denies first
			}
			limits = append(limits, core.PerHour(quota).FixedWindow().By(keyfuncs.Everyone()).Named(fmt.Sprintf("limit-%d", i)))
		}
		store, _ := at()
		l := limiterOn(t, store, limits...)
		for i := range 5 {
			d := l.Allow(&request{})
			for kind, h := range map[string]http.Header{"http.Header": {}, "HeaderMap": {}} {
				if kind == "HeaderMap" {
					d.SetHeaders(adapter.HeaderMap(h))
				} else {
					d.SetHeaders(h)
				}
				policy, field := h.Get("RateLimit-Policy"), h.Get("RateLimit")
				check.Slices(t, fmt.Sprintf("%d limits, %s: names in RateLimit-Policy", n, kind), namesIn(policy), namesIn(field))
				if len(policy) > most || len(field) > most {
					t.Errorf("%d limits: the fields have %d and %d bytes", n, len(policy), len(field))
				}
				if shown := len(namesIn(field)); n <= 25 && shown < n || shown < min(n, 25) {
					t.Errorf("%d limits: %d are named", n, shown)
				}
				if least := fmt.Sprintf("limit-%d", n-2); n > 1 && !slices.Contains(namesIn(field), least) {
					t.Errorf("%d limits, request %d: %s, which has the fewest units left, is not in %q", n, i+1, least, field)
				}
			}
			check.Equal(t, fmt.Sprintf("%d limits: request %d is allowed", n, i+1), d.Allowed, i < 3 || n == 1)
		}
	}
}

// The names in the body of a denial are bounded as well.
func TestNamesInABodyAreBounded(t *testing.T) {
	t.Parallel()
	var limits []core.Limit
	for i := range 200 {
		limits = append(limits, core.PerHour(1).FixedWindow().By(keyfuncs.Everyone()).Named(fmt.Sprintf("%060d", i)))
	}
	store, _ := at()
	l := limiterOn(t, store, limits...)
	l.Allow(&request{})
	d := l.Allow(&request{})
	body, _ := d.AppendProblem(nil, "")
	if d.Allowed || len(body) > 1100 || strings.Count(string(body), `"000`) != 12 || !strings.HasSuffix(string(body), `"]}`) {
		t.Errorf("%d bytes: %s", len(body), body)
	}
}

// A response names the limits that applied to its request, and no others.
func TestLimitsThatDoNotApplyAreNotNamed(t *testing.T) {
	t.Parallel()
	api := core.PerHour(100).FixedWindow().By(keyfuncs.Everyone()).Named("api")
	login := core.PerHour(5).FixedWindow().By(keyfuncs.Everyone()).Named("login")
	for name, login := range map[string]core.Limit{
		"by a condition":            login.When(keyfuncs.Methods("POST")),
		"by an exception":           login.Unless(keyfuncs.Methods("GET")),
		"for the lack of its key":   core.PerHour(5).FixedWindow().By(keyfuncs.User("userID")).OnMissingKey(core.SkipLimit).Named("login"),
		"by a condition, in shadow": login.When(keyfuncs.Methods("POST")).Shadow(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := at()
			d := limiterOn(t, store, api, login).Allow(&request{})
			h := http.Header{}
			d.SetHeaders(h)
			check.Equal(t, "RateLimit-Policy", h.Get("RateLimit-Policy"), `"api";q=100;w=3600`)
			check.Slices(t, "names in RateLimit", namesIn(h.Get("RateLimit")), []string{"api"})
		})
	}
	store, _ := at()
	d := limiterOn(t, store, api, login.When(keyfuncs.Methods("POST"))).Allow(&request{method: "POST"})
	h := http.Header{}
	d.SetHeaders(h)
	check.Slices(t, "names where both apply", namesIn(h.Get("RateLimit-Policy")), []string{"api", "login"})
}
