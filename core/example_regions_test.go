package core_test

import (
	"context"
	"fmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// Two regions, each with a store of its own, around a home. Logins are decided at home, so a client that tries in both
// regions gets the limit once; what a region exports it counts alone.
func ExampleLimit_Regions() {
	home := core.NewMemory()
	for _, region := range []string{"eu", "us"} {
		store, err := regions.New(core.NewMemory(), home, regions.Config{Region: region, Regions: 2})
		if err != nil {
			panic(err)
		}
		limiter := core.ForLimits(store, []core.Limit{
			core.PerHour(1).By(keyfuncs.ClientIP()).Named("login").Regions(core.AtHome).When(keyfuncs.Methods("POST")),
			core.PerHour(1).By(keyfuncs.ClientIP()).Named("export").Regions(core.InEachRegion).When(keyfuncs.Methods("GET")),
		})
		for _, method := range []string{"POST", "GET"} {
			fmt.Println(region, method, limiter.Allow(&request{method: method, peer: "192.0.2.1"}).Allowed)
		}
	}
	// Output:
	// eu POST true
	// eu GET true
	// us POST false
	// us GET true
}

// unreachable is a home that is away.
type unreachable struct{ core.Store }

func (unreachable) Take(context.Context, []core.Check, []core.Result) error {
	return context.DeadlineExceeded
}

// While home is away, a region still grants its floor, here a tenth of the limit by two regions, and its overdraft.
func ExampleLimit_Overdraft() {
	store, err := regions.New(core.NewMemory(), unreachable{core.NewMemory()}, regions.Config{Region: "eu", Regions: 2})
	if err != nil {
		panic(err)
	}
	limiter := core.ForLimits(store, []core.Limit{
		core.PerHour(1000).FixedWindow().By(keyfuncs.User("userID")).Overdraft(200),
	})
	granted := 0
	for range 1000 {
		if d := limiter.AllowKey(context.Background(), "user:42", 1); d.Allowed {
			granted++
		}
	}
	fmt.Println(granted)
	// Output: 250
}
