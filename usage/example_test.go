package usage_test

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/usage"
)

// A page of one's own shows what is left.
func ExampleNew() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerMonth(1000, time.UTC).By(keyfuncs.User("user")).Named("plan")})
	own := usage.New(usage.Config{Limiters: []*core.Limiter{limiter}})

	ann := keyfuncs.Values{"user": "ann"}
	limiter.Allow(ann)
	report, denied, err := own.Report(ann)
	if err != nil || denied != nil {
		fmt.Println(err, denied)
		return
	}
	plan := report.Limits["plan"]
	fmt.Println(plan.Used, "of", plan.Limit, "used,", plan.Remaining, "left")
	// Output: 1 of 1000 used, 999 left
}
