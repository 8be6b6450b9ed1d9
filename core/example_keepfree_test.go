package core_test

import (
	"fmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The last fifth of what the service can do is for writes.
func ExampleLimit_KeepFree() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(5).By(keyfuncs.Everyone()).Named("service").KeepFree(0.2, keyfuncs.Methods("POST")),
	})
	for range 5 {
		fmt.Println("GET", limiter.Allow(&request{method: "GET"}).Allowed)
	}
	fmt.Println("POST", limiter.Allow(&request{method: "POST"}).Allowed)
	// Output:
	// GET true
	// GET true
	// GET true
	// GET true
	// GET false
	// POST true
}
