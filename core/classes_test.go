package core_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// threeClasses are POST with a fifth, PUT with three tenths, and all others.
func threeClasses(l core.Limit) core.Limit {
	return l.Classes(core.Class{Name: "high", When: keyfuncs.Methods("POST"), Keep: 0.2}, core.Class{Name: "middle", When: keyfuncs.Methods("PUT"), Keep: 0.3}, core.Class{Name: "low"})
}

// of is a request of a class of threeClasses.
func ofClass(method string, cost int64) *request {
	return &request{method: method, values: map[any]any{"cost": cost}}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"bucket": everyone(10), "window": everyone(10).FixedWindow(), "sliding": everyone(10).SlidingWindow(), "log": everyone(10).SlidingLog(),
		"month": core.PerMonth(10, time.UTC).By(keyfuncs.Everyone()), "slots": core.Concurrent(10).By(keyfuncs.Everyone()),
	} {
		for _, more := range [][]core.Limit{nil, {everyone(1000).Named("beside")}} { // the short path, and the long one
			l := limiterAt(t, append([]core.Limit{threeClasses(limit.CostBy(costing))}, more...)...)
			left := func(what string, d core.Decision, allowed bool, class string, remaining int64) {
				t.Helper()
				check.All(t, fmt.Sprint(name, len(more), ": ", what), []any{d.Allowed, d.Class("default"), d.Results()[0].Remaining, d.Class("beside")}, allowed, class, remaining, "")
			}
			left("low takes idle room", l.Allow(ofClass("GET", 4)), true, "low", 1)
			left("low takes nothing of the middle", l.Allow(ofClass("GET", 2)), false, "low", 1)
			left("middle has its own, and what is left of the low", l.Allow(ofClass("PUT", 4)), true, "middle", 0)
			left("middle takes nothing of the high", l.Allow(ofClass("PUT", 1)), false, "middle", 0)
			left("low is denied", l.Allow(ofClass("GET", 1)), false, "low", 0)
			left("high takes all", l.Allow(ofClass("POST", 2)), true, "high", 0)
			left("and no more", l.Allow(ofClass("POST", 1)), false, "high", 0)
		}
	}
}

// A client that can make no class of its own gets the lowest, and none by a header that is there twice.
func TestNobodyIsOfAClassByGarbage(t *testing.T) {
	t.Parallel()
	byHeader := everyone(10).Classes(core.Class{Name: "gold", When: keyfuncs.Matches(func(r keyfuncs.Request) bool { return keyfuncs.HeaderOf(r, "X-Class") == "gold" }), Keep: 0.5}, core.Class{Name: "rest"})
	l := limiterAt(t, byHeader)
	for value, want := range map[string]string{"gold": "gold", "": "rest", "GOLD": "rest", "gold,gold": "rest"} {
		d := l.Allow(keyfuncs.Values{"X-Class": value})
		check.Equal(t, fmt.Sprintf("the class of %q", value), d.Class("default"), want)
	}
	check.Equal(t, "the header twice", l.Allow(twice("X-Class")).Reason, core.ReasonAmbiguousKey)
	unrouted := limiterAt(t, everyone(10).Classes(core.Class{Name: "gold", When: keyfuncs.Routes("POST /checkout"), Keep: 0.5}, core.Class{Name: "rest"}))
	d := unrouted.Allow(&request{method: "POST", route: "?"})
	check.Equal(t, "where the route is not known", d.Class("default"), "rest")
}

func TestClassesWithTiersScaleOutageAndPeek(t *testing.T) {
	t.Parallel()
	limit := threeClasses(everyone(100).FixedWindow().CostBy(costing))
	tier := func(keyfuncs.Request) core.Limit { return core.PerHour(200).FixedWindow() }
	for _, tt := range []struct {
		name              string
		limit             core.Limit
		high, middle, low int64
	}{
		{"plain", limit, 100, 80, 50}, {"a tier", limit.Tiers(tier), 200, 160, 100}, {"scaled", limit.Scale(half), 50, 40, 25}, {"a scaled tier", limit.Tiers(tier).Scale(half), 100, 80, 50},
	} {
		l := limiterAt(t, tt.limit)
		for method, want := range map[string]int64{"POST": tt.high, "PUT": tt.middle, "GET": tt.low} {
			d := must.Get(l.PeekRequest(ofClass(method, 0), 1))(t)
			check.All(t, tt.name+" "+method, []any{d.Results()[0].Remaining, d.Class("default") != ""}, want, true)
		}
	}
	out := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 5, Limits: []core.Limit{limit}})
	for _, step := range []struct {
		method  string
		cost    int64
		allowed bool
		class   string
	}{{"GET", 10, true, "low"}, {"GET", 1, false, "low"}, {"PUT", 6, true, "middle"}, {"PUT", 1, false, "middle"}, {"POST", 4, true, "high"}, {"POST", 1, false, "high"}} {
		d := out.Allow(ofClass(step.method, step.cost))
		check.All(t, fmt.Sprint("a fifth, in an outage: ", step), []any{d.Allowed, d.Class("default"), d.Reason}, step.allowed, step.class, core.ReasonOutageLocal)
	}
}

// A call that is used again must not remember the class of a request before.
func TestClassesDoNotStick(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, threeClasses(everyone(1000)), everyone(1000).Named("other"))
	for range 50 {
		for method, want := range map[string]string{"POST": "high", "PUT": "middle", "GET": "low"} {
			d := l.Allow(ofClass(method, 1))
			check.Equal(t, method, d.Class("default"), want)
		}
		byKey := l.AllowKey(t.Context(), "k", 1)
		check.Equal(t, "a key", byKey.Class("default"), "")
	}
}

func TestHeadersOfClasses(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, threeClasses(everyone(10)))
	for method, want := range map[string]string{"POST": `"default";q=10;w=3600`, "PUT": `"default";q=8;w=2880`, "GET": `"default";q=5;w=1800`} {
		h := told(l.Allow(ofClass(method, 1)))
		check.Equal(t, "the policy of "+method, h.Get("RateLimit-Policy"), want)
		if text := fmt.Sprint(h); strings.Contains(text, "low") || strings.Contains(text, "middle") || strings.Contains(text, "high") {
			t.Errorf("clients are told the name of a class: %s", text)
		}
	}
}

func TestClassesThatCanNotWork(t *testing.T) {
	t.Parallel()
	posts, puts := keyfuncs.Methods("POST"), keyfuncs.Methods("PUT")
	high := core.Class{Name: "high", When: posts, Keep: 0.5}
	low := core.Class{Name: "low"}
	many := make([]core.Class, 8)
	for name, tt := range map[string]struct {
		limit core.Limit
		want  string
	}{
		"one":                      {everyone(10).Classes(low), "2 to 8 classes, got 1"},
		"nine":                     {everyone(10).Classes(high, many...), "2 to 8 classes, got 9"},
		"no name":                  {everyone(10).Classes(high, core.Class{}), `the name of a class must be`},
		"a name twice":             {everyone(10).Classes(high, core.Class{Name: "high"}), `two classes have the name "high"`},
		"nothing is kept":          {everyone(10).Classes(core.Class{Name: "high", When: posts}, low), `Keep of class "high" must be above 0 and below 1, got 0`},
		"all is kept":              {everyone(10).Classes(core.Class{Name: "high", When: posts, Keep: 1}, low), `got 1`},
		"no number":                {everyone(10).Classes(core.Class{Name: "high", When: posts, Keep: math.NaN()}, low), `got NaN`},
		"more than all together":   {everyone(10).Classes(high, core.Class{Name: "middle", When: puts, Keep: 0.5}, low), "below 1 together"},
		"no condition":             {everyone(10).Classes(core.Class{Name: "high", Keep: 0.5}, low), `class "high"`},
		"a bad condition":          {everyone(10).Classes(core.Class{Name: "high", When: keyfuncs.FromCIDR("nowhere"), Keep: 0.5}, low), "nowhere"},
		"a condition for the last": {everyone(10).Classes(high, core.Class{Name: "low", When: puts}), "leave out When"},
		"a bad one for the last":   {everyone(10).Classes(high, core.Class{Name: "low", When: keyfuncs.FromCIDR("nowhere")}), "leave out When"},
		"something kept for it":    {everyone(10).Classes(high, core.Class{Name: "low", Keep: 0.1}), "leave out Keep"},
		"nothing is left":          {everyone(10).Classes(core.Class{Name: "high", When: posts, Keep: 0.95}, low), `Classes leaves class "low" nothing of 10 units`},
		"less than the cost":       {everyone(10).Cost(6).Classes(high, low), `cost 6 can never fit: Classes leaves class "low" 5 units`},
		"with KeepFree":            {everyone(10).KeepFree(0.1, posts).Classes(high, low), "either KeepFree or Classes"},
		"twice":                    {everyone(10).Classes(high, low).Classes(high, low), "Classes: there twice"},
		"a queue":                  {everyone(10).Wait(time.Second).Classes(high, low), "either classes (KeepFree, Classes) or a queue"},
	} {
		if _, err := tt.limit.Named("api").Rule(); err == nil || !strings.HasPrefix(err.Error(), `weblimit: limit "api": `) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.want)
		}
	}
}
