package core_test

import (
	"fmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A consumer takes batches of whatever size fits, and waits before it takes the rest.
func ExampleLimiter_AllowAtMost() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(100).FixedWindow().By(keyfuncs.Tenant("tenant")).Named("tenant"),
		core.PerMinute(60).By(keyfuncs.Tenant("tenant")).Named("pace"),
	})
	for _, jobs := range []int64{50, 50, 50} {
		granted, d := limiter.AllowAtMost(ctx, keyfuncs.Encode("tenant", "acme"), jobs)
		fmt.Println(granted, "of", jobs, "- more later:", d.RetryAfter > 0)
	}
	// Output:
	// 50 of 50 - more later: false
	// 10 of 50 - more later: true
	// 0 of 50 - more later: true
}
