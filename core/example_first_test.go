package core_test

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The plan pays, then credits do. The rate applies to every request.
func ExampleFirst() {
	tenant := keyfuncs.User("tenant")
	plan := core.PerMonth(2, time.UTC).By(tenant).Named("plan")
	credits := core.Per(2, 365*24*time.Hour).FromFirstUse().By(tenant).Named("credits")
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(600).By(tenant).Named("rate"),
		core.First(plan, credits),
	})
	for range 5 {
		d := limiter.AllowKey(ctx, "tenant:acme", 1)
		fmt.Println(d.Allowed, d.PaidBy())
	}
	// Output:
	// true [rate plan]
	// true [rate plan]
	// true [rate credits]
	// true [rate credits]
	// false []
}
