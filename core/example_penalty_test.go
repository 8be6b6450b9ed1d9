package core_test

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A client that goes on after being refused ten times is blocked for a quarter of
// an hour, then for half an hour, and so on up to a day.
func ExampleLimit_Penalty() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(5).By(keyfuncs.ClientIP()).Named("login").
			Penalty(core.Block{After: 10, Within: time.Hour, For: 15 * time.Minute}),
	})
	for n := 1; n <= 16; n++ {
		d := limiter.Allow(&request{peer: "192.0.2.1"})
		if n == 1 || n == 6 || n >= 15 {
			fmt.Println(n, d.Allowed, "-", d.Reason, d.RetryAfter.Round(time.Minute))
		}
	}
	// Output:
	// 1 true - within limit 0s
	// 6 false - limit exceeded 0s
	// 15 false - blocked 15m0s
	// 16 false - blocked 15m0s
}

// For an admin's page: the list of blocked clients, and a button to unblock one.
func ExampleLimiter_Blocks() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(5).By(keyfuncs.User("userID")).Named("login").
			Penalty(core.Block{After: 10, Within: time.Hour, For: 15 * time.Minute}),
	})
	list := func() {
		n := 0
		for b, err := range limiter.Blocks(ctx) {
			if err != nil {
				fmt.Println(err)
				continue
			}
			fmt.Println(b.Limit, b.Key, time.Until(b.Until).Round(time.Minute))
			n++
		}
		fmt.Println(n, "blocked")
	}
	for range 15 {
		limiter.AllowKey(ctx, "user:mallory", 1)
	}
	list()
	if err := limiter.Unblock(ctx, "user:mallory"); err != nil {
		fmt.Println(err)
	}
	list()
	// Output:
	// login user:mallory 15m0s
	// 1 blocked
	// 0 blocked
}

func ExampleLimiter_Block() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(5).By(keyfuncs.User("userID")).Named("login").
			Penalty(core.Block{After: 10, Within: time.Hour, For: 15 * time.Minute}),
	})
	if err := limiter.Block(ctx, "login", "user:mallory", 24*time.Hour); err != nil {
		fmt.Println(err)
	}
	d := limiter.AllowKey(ctx, "user:mallory", 1)
	fmt.Println(d.Allowed, "-", d.Reason, d.RetryAfter.Round(time.Hour))
	body, _ := d.AppendProblem(nil, "")
	fmt.Printf("%.84s…\n", body)
	// Output:
	// false - blocked 24h0m0s
	// {"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","t…
}

func ExampleLimiter_Unblock() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(5).By(keyfuncs.User("userID")).Named("login").
			Penalty(core.Block{After: 1, Within: time.Hour, For: 15 * time.Minute}),
	})
	for range 6 {
		limiter.AllowKey(ctx, "user:alice", 1)
	}
	fmt.Println(limiter.AllowKey(ctx, "user:alice", 1).Reason)

	// Unblock forgets the denials, Reset what she has used as well.
	if err := limiter.Reset(ctx, "user:alice"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(limiter.AllowKey(ctx, "user:alice", 1).Reason)
	// Output:
	// blocked
	// within limit
}
