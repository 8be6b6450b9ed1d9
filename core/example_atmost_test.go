package core_test

import (
	"fmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Tenants of a plan get larger batches.
func ExampleLimiter_AllowAtMost() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(10).By(keyfuncs.Tenant("tenant")).Named("jobs").
			Tiers(func(r keyfuncs.Request) core.Limit {
				if r.Value("plan") == "pro" {
					return core.PerHour(100)
				}
				return core.Limit{} // 10
			}),
	})
	for _, request := range []keyfuncs.Values{
		{"tenant": "small", "plan": "free"},
		{"tenant": "acme", "plan": "pro"},
	} {
		granted, _ := limiter.AllowAtMost(request, 60)
		fmt.Println(request["tenant"], "runs", granted, "of 60 jobs")
	}
	// Output:
	// small runs 10 of 60 jobs
	// acme runs 60 of 60 jobs
}

// A consumer takes batches of whatever size fits, and waits before it takes the rest.
func ExampleLimiter_AllowKeyAtMost() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(100).FixedWindow().By(keyfuncs.Tenant("tenant")).Named("tenant"),
		core.PerMinute(60).By(keyfuncs.Tenant("tenant")).Named("pace"),
	})
	for _, jobs := range []int64{50, 50, 50} {
		granted, d := limiter.AllowKeyAtMost(ctx, keyfuncs.Encode("tenant", "acme"), jobs)
		fmt.Println(granted, "of", jobs, "- more later:", d.RetryAfter > 0)
	}
	// Output:
	// 50 of 50 - more later: false
	// 10 of 50 - more later: true
	// 0 of 50 - more later: true
}
