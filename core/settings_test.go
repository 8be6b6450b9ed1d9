package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A setting that another one replaces, or that has no function, would do nothing, and nobody would know.
func TestSettingsThatWouldDoNothingAreErrors(t *testing.T) {
	t.Parallel()
	five := core.PerHour(5)
	twice := ": there twice, and the first would do nothing"
	isNil := ": the function is nil, which would do nothing"
	for _, tt := range []struct {
		name  string
		limit core.Limit
		want  string // after `weblimit: limit "default": `
	}{
		{"By", five.By(keyfuncs.ClientIP()).By(keyfuncs.Route()), "By is there twice, and the first would do nothing; By(a, b) counts each combination, and two limits count both"},
		{"By of nothing after a good one", five.By(keyfuncs.Everyone()).By(), "By is there twice, and the first would do nothing; By(a, b) counts each combination, and two limits count both"},
		{"RefundOn", five.RefundOn(core.Failures).RefundOn(core.Canceled), "RefundOn is there twice, and the first would do nothing; have one function answer for both"},
		{"Burst", five.Burst(9).Burst(8), "Burst" + twice},
		{"Burst that a text has", must.Get(core.ParseLimit("5/hour burst 9"))(t).Burst(8), "Burst" + twice},
		{"Cost and When, of which only the first", five.Cost(2).When(keyfuncs.Methods("GET")).Cost(3).When(keyfuncs.Methods("GET")), "Cost" + twice},
		{"two of several", five.Cost(2).Wait(time.Second).Wait(time.Second).Cost(3), "Cost, Wait" + twice},
		{"CostBy", five.CostBy(costing).CostBy(costing), "CostBy" + twice},
		{"Estimate", five.Estimate(2).Estimate(3), "Estimate" + twice},
		{"Debt", five.Debt(2).Debt(2), "Debt" + twice},
		{"UpToBurst", five.Estimate(2).UpToBurst().UpToBurst(), "UpToBurst" + twice},
		{"EstimateBy", five.EstimateBy(costing).EstimateBy(costing), "EstimateBy" + twice},
		{"Lease", core.Concurrent(5).Lease(time.Second).Lease(time.Minute), "Lease" + twice},
		{"OnMissingKey", five.OnMissingKey(core.DenyRequest).OnMissingKey(core.SkipLimit), "OnMissingKey" + twice},
		{"OncePer", five.OncePer(keyfuncs.Route(), time.Hour).OncePer(keyfuncs.Route(), time.Minute), "OncePer" + twice},
		{"Repeats", five.OncePer(keyfuncs.Route(), time.Hour).Repeats(1).Repeats(2), "Repeats" + twice},
		{"OnOutage", five.OnOutage(core.Deny).OnOutage(core.Allow), "OnOutage" + twice},
		{"Penalty", login().Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}).Named("default"), "Penalty" + twice},
		{"KeepFree", five.KeepFree(0.5, keyfuncs.Methods("GET")).KeepFree(0.4, keyfuncs.Methods("PUT")), "KeepFree" + twice},
		{"SlowDown", five.SlowDown(0.5, time.Second).SlowDown(0.6, time.Second), "SlowDown" + twice},
		{"Soft", five.Soft(2).Soft(3), "Soft" + twice},
		{"WarnAt", five.WarnAt(0.5).WarnAt(0.9), "WarnAt" + twice},
		{"Tiers", five.Tiers(func(keyfuncs.Request) core.Limit { return five }).Tiers(func(keyfuncs.Request) core.Limit { return five }), "Tiers" + twice},
		{"Scale", five.Scale(func(context.Context) float64 { return 1 }).Scale(func(context.Context) float64 { return 1 }), "Scale" + twice},

		{"a cost and a computed one", five.Cost(2).CostBy(costing), "a limit has either Cost or CostBy, got both; have the function of CostBy return the cost"},
		{"an estimate and a computed one", five.EstimateBy(costing).Estimate(2), "a limit has either Estimate or EstimateBy, got both; have the function of EstimateBy return the estimate"},
		{"a leaky bucket that waits", five.LeakyBucket(time.Second).Wait(time.Minute), "a leaky bucket has its longest wait already: LeakyBucket(maxDelay), without Wait"},
		{"a wait that leaks", five.Wait(time.Minute).LeakyBucket(time.Second), "a leaky bucket has its longest wait already: LeakyBucket(maxDelay), without Wait"},

		{"RefundOn of nothing", five.RefundOn(nil), "RefundOn" + isNil},
		{"Tiers of nothing", five.Tiers(nil), "Tiers" + isNil},
		{"Scale of nothing", five.Scale(nil), "Scale" + isNil},
		{"CostBy of nothing", five.CostBy(nil), "CostBy" + isNil},
		{"EstimateBy of nothing", five.EstimateBy(nil), "EstimateBy" + isNil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tt.limit.Rule()
			check.Equal(t, "error", err.Error(), `weblimit: limit "default": `+tt.want)
		})
	}
}

// What may be said again: a name, conditions, and what means the same when it is repeated. A text
// replaces the numbers of a limit, and says them once.
func TestSettingsThatMayBeSaidAgain(t *testing.T) {
	t.Parallel()
	limit := core.PerHour(5).Burst(9).Wait(time.Second).Named("a").Named("b").FixedWindow().Shadow().Shadow().
		When(keyfuncs.Methods("GET")).When(keyfuncs.Routes("/a")).By(keyfuncs.Everyone())
	must.OK(t, limit.UnmarshalText([]byte("7/minute fixed jitter wait 2s")))
	check.Equal(t, "text", limit.Jitter().String(), "7/minute fixed jitter wait 2s")
	must.Get(limit.Rule())(t)
	must.Get(core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{limit}}))(t)
	if _, err := limit.Wait(time.Second).Rule(); err == nil {
		t.Error("a Wait beside that of the text is no error")
	}
}
