package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// While the database is being rebuilt, everybody gets half.
func ExampleLimit_Scale() {
	rebuilding := true
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(100).By(keyfuncs.User("userID")).Scale(func(context.Context) float64 {
			if rebuilding {
				return 0.5
			}
			return 1
		}),
	})
	d := limiter.AllowKey(context.Background(), "user:42", 10)
	fmt.Println(d.Allowed, d.Results()[0].Remaining)
	// Output: true 40
}

// Clients get less while more than 200 requests are at work, or more than 1 in 100
// take longer than half a second. Around handlers goes an adapter's Measure.
func ExampleLoad() {
	load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 200, Slow: 500 * time.Millisecond})
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(100).By(keyfuncs.User("userID")).Scale(load.Factor),
	})
	if d := limiter.AllowKey(context.Background(), "user:42", 1); d.Allowed {
		work := load.BeginKey("user:42")
		defer work.End()
		fmt.Println(load.InFlight(), "in flight")
	}
	// Output: 1 in flight
}
