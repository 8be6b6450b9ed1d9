package top_test

import (
	"context"
	"fmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
)

// Which clients are nearest to a limit, and why one was denied. On Redis, give the tracker
// store.Exchange(): then Collect has the counts of all instances.
func Example() {
	heavy := top.New(top.Config{})
	defer heavy.Close()
	limiter, err := core.New(core.Config{
		Store:   core.NewMemory(),
		Limits:  []core.Limit{core.PerHour(10).By(keyfuncs.User("user")).Named("api")},
		Observe: heavy,
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	for user, requests := range map[string]int{"user:alice": 14, "user:bob": 9, "user:carol": 2} {
		for range requests {
			limiter.AllowKey(ctx, user, 1)
		}
	}

	snapshot, err := heavy.Collect(ctx)
	if err != nil {
		fmt.Println(err) // the snapshot has what could be read
	}
	api := snapshot.Limit("api")
	for _, c := range api.Nearest(2) {
		fmt.Printf("%s used %.0f %%, denied %d times\n", c.Key, 100*c.Used, c.Minute.Denied)
	}
	if alice, ok := api.Client("user:alice"); ok {
		fmt.Printf("%s: %v, %d of %d left\n", alice.Key, alice.Denial.Reason, alice.Denial.Remaining, alice.Denial.Burst)
	}
	// Output:
	// user:alice used 100 %, denied 4 times
	// user:bob used 90 %, denied 0 times
	// user:alice: limit exceeded, 0 of 10 left
}

// A limit in shadow mode denies nobody. From what clients use meanwhile, Suggest reads the number
// to enforce.
func ExampleUse_Suggest() {
	heavy := top.New(top.Config{})
	defer heavy.Close()
	limiter, err := core.New(core.Config{
		Store:   core.NewMemory(),
		Limits:  []core.Limit{core.PerDay(10).By(keyfuncs.User("user")).Named("api").Shadow()},
		Observe: heavy,
	})
	if err != nil {
		panic(err)
	}
	for user := range 100 {
		for range 1 + user { // the first user asks once, the last a hundred times
			limiter.AllowKey(context.Background(), keyfuncs.Encode("user", fmt.Sprint(user)), 1)
		}
	}

	use := heavy.Snapshot().Limit("api").Use
	if s, ok := use.Suggest(0.95); ok {
		fmt.Printf("95 %% of %d clients stay within %d per %v\n", s.Clients, s.Quota, s.Window)
	}
	fmt.Printf("10 would be enough for %.0f %% of them\n", 100*use.Share(10))
	// Output:
	// 95 % of 100 clients stay within 95 per 24h0m0s
	// 10 would be enough for 10 % of them
}
