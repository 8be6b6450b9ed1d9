package core_test

import (
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestWhenAndUnless(t *testing.T) {
	t.Parallel()
	writes, health := keyfuncs.Methods("POST", "PUT"), keyfuncs.Routes("/healthz")
	get, post := &request{}, &request{method: "POST"}
	ping := &request{method: "POST", route: "/healthz"}
	for _, tt := range []struct {
		name   string
		limits []core.Limit
		r      *request
		want   []int64 // what remains of the limits that apply
	}{
		{"it holds", []core.Limit{everyone(5).When(writes)}, post, []int64{4}},
		{"it does not hold", []core.Limit{everyone(5).When(writes)}, get, nil},
		{"an exemption holds", []core.Limit{everyone(5).Unless(writes)}, post, nil},
		{"an exemption does not hold", []core.Limit{everyone(5).Unless(writes)}, get, []int64{4}},
		{"both of two hold", []core.Limit{everyone(5).When(writes).When(health)}, ping, []int64{4}},
		{"one of two holds", []core.Limit{everyone(5).When(writes).When(health)}, post, nil},
		{"the other of two holds", []core.Limit{everyone(5).When(health).When(writes)}, post, nil},
		{"a condition and an exemption", []core.Limit{everyone(5).When(writes).Unless(health)}, post, []int64{4}},
		{"a condition and an exemption that holds", []core.Limit{everyone(5).When(writes).Unless(health)}, ping, nil},
		{"one limit of two applies", []core.Limit{everyone(5).Named("a").When(health), everyone(9).Named("b")}, get, []int64{8}},
		{"each of two limits applies", []core.Limit{everyone(5).Named("a").When(writes), everyone(9).Named("b").Unless(health)}, post, []int64{4, 8}},
		{"none of two limits applies", []core.Limit{everyone(5).Named("a").When(writes), everyone(9).Named("b").When(health)}, get, nil},
		{"a limit in shadow mode does not apply", []core.Limit{everyone(5).When(writes).Shadow()}, get, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newFlaky(false)
			l := newLimiter(t, core.Config{Store: store, Limits: tt.limits, Headers: everyDialect})
			d := l.Allow(tt.r)
			wantDecision(t, tt.name, d, true, core.ReasonWithinLimit, tt.want...)
			if tt.want == nil {
				wantNothingTold(t, tt.name, d)
			} else if told(d).Get("RateLimit") == "" {
				t.Error("the client is told nothing of the limit that applied")
			}
			check.Equal(t, "the store was asked", store.calls.Load() > 0, tt.want != nil)
		})
	}
}

// Trap 27: what no limit applies to is no matter of outages either.
func TestOutageOfALimitThatDoesNotApply(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	d := limiterOn(t, store, everyone(5).When(keyfuncs.Methods("POST")).OnOutage(core.Deny)).Allow(&request{})
	wantDecision(t, "no limit applies", d, true, core.ReasonWithinLimit)
	check.OK(t, d.Err)
	check.Equal(t, "calls of the store", store.calls.Load(), 0)
}

// What belongs to a limit is not read where the limit does not apply.
func TestALimitThatDoesNotApplyReadsNothing(t *testing.T) {
	t.Parallel()
	limit := core.PerHour(1).Named("a").
		By(keyfuncs.Custom("x", func(keyfuncs.Request) string { t.Error("the key was read"); return "" })).
		OnMissingKey(core.DenyRequest).
		CostBy(func(keyfuncs.Request) int64 { t.Error("the cost was read"); return -1 }).
		Tiers(func(keyfuncs.Request) core.Limit { t.Error("the tier was read"); return core.Limit{} }).
		When(keyfuncs.Methods("POST"))
	d := limiterOn(t, core.NewMemory(), limit, everyone(5).Named("b")).Allow(&request{})
	wantDecision(t, "the other limit", d, true, core.ReasonWithinLimit, 4)
}

// A Limit is a value: deriving a limit changes neither it nor others.
func TestDerivedLimitsKeepTheirOwnConditions(t *testing.T) {
	t.Parallel()
	yes := keyfuncs.Matches(func(keyfuncs.Request) bool { return true })
	base := everyone(9).When(yes).When(yes).When(yes) // where an append would have room
	gets, posts := base.Named("gets").When(keyfuncs.Methods("GET")), base.Named("posts").When(keyfuncs.Methods("POST"))
	d := limiterOn(t, core.NewMemory(), base, gets, posts).Allow(&request{method: "POST"})
	var names []string
	for _, r := range d.Results() {
		names = append(names, r.Rule.Name)
	}
	check.Slices(t, "what a POST is counted by", names, []string{"default", "posts"})
	levels := []float64{0.9, 0.1}
	warned := everyone(10).WarnAt(levels...)
	levels[0], levels[1] = 0.5, 0.5
	d = limiterOn(t, core.NewMemory(), warned).Allow(&request{})
	check.Equal(t, "the warning level of the first of 10", d.WarnLevel(), 0.1)
}
