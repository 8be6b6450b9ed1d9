package core_test

import (
	"fmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Whatever crawlers do, two of ten units are left for orders, and three more for customers.
func ExampleLimit_Classes() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(10).By(keyfuncs.Everyone()).Named("service").Classes(
			core.Class{Name: "orders", When: keyfuncs.Methods("POST"), Keep: 0.2},
			core.Class{Name: "customers", When: keyfuncs.Methods("PUT"), Keep: 0.3},
			core.Class{Name: "crawlers"},
		),
	})
	for _, method := range []string{"GET", "PUT", "POST"} {
		passed := 0
		for {
			d := limiter.Allow(&request{method: method})
			if !d.Allowed {
				fmt.Println(passed, "of", d.Class("service"))
				break
			}
			passed++
		}
	}
	// Output:
	// 5 of crawlers
	// 3 of customers
	// 2 of orders
}
