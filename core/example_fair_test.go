package core_test

import (
	"fmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// One tenant asks for all that there is. Once another one has asked, it has half, and the rest waits for the other.
func ExampleLimit_Fair() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(100).By(keyfuncs.Everyone()).Named("capacity").Fair(core.Shares{By: keyfuncs.Tenant("tenant")}),
	})
	limiter.Allow(keyfuncs.Values{"tenant": "light"})
	for {
		d := limiter.Allow(keyfuncs.Values{"tenant": "heavy"})
		if b, _ := d.Binding(); !d.Allowed {
			fmt.Printf("heavy: %v, of %d\n", b.Standing, b.Share)
			break
		}
	}
	for range 20 {
		if d := limiter.Allow(keyfuncs.Values{"tenant": "light"}); !d.Allowed {
			fmt.Println("light is denied")
		}
	}
	// Output:
	// heavy: over share, of 49
}
