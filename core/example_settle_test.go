package core_test

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Five failed logins within fifteen minutes. Successful ones are given back.
func ExampleLimit_RefundOn() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.Per(5, 15*time.Minute).SlidingLog().By(keyfuncs.ClientIP()).Named("login").RefundOn(core.Successes),
	})
	for _, status := range []int{401, 200, 401} {
		d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
		d.Settle(core.Outcome{Status: status}) // adapters do this after the handler
		if err := limiter.Drain(ctx); err != nil {
			fmt.Println(err)
		}
		after, _ := limiter.Peek(ctx, "ip:192.0.2.1", 1)
		b, _ := after.Binding()
		fmt.Println(status, "-", b.Remaining, "attempts left")
	}
	// Output:
	// 401 - 4 attempts left
	// 200 - 4 attempts left
	// 401 - 3 attempts left
}

// The cost of a language model's answer is known only after it is written.
func ExampleLimit_Estimate() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerDay(10_000).FixedWindow().By(keyfuncs.User("userID")).Named("tokens").Estimate(500),
	})
	d := limiter.Allow(&request{values: map[any]any{"userID": "alice"}})
	b, _ := d.Binding()
	fmt.Println(b.Remaining, "left of the day, with an estimate of 500")

	ctx := core.NewContext(ctx, d) // the middleware's context for the handler
	for _, tokens := range []int64{120, 60} {
		if err := core.Spend(ctx, tokens); err != nil { // the handler, as it goes
			fmt.Println(err)
		}
	}
	d.Settle(core.Outcome{Status: 200})
	if err := limiter.Drain(ctx); err != nil {
		fmt.Println(err)
	}
	after, _ := limiter.Peek(ctx, keyfuncs.Encode("user", "alice"), 1)
	b, _ = after.Binding()
	fmt.Println(b.Remaining, "left after 180 tokens")
	// Output:
	// 9500 left of the day, with an estimate of 500
	// 9820 left after 180 tokens
}

// The estimate can depend on the request.
func ExampleLimit_EstimateBy() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerDay(10_000).FixedWindow().By(keyfuncs.User("userID")).EstimateBy(func(r keyfuncs.Request) int64 {
			if _, long := r.Header("X-Long-Answer", 0); long {
				return 4000
			}
			return 500
		}),
	})
	for _, headers := range []map[string]string{nil, {"X-Long-Answer": "1"}} {
		d := limiter.Allow(&request{values: map[any]any{"userID": "alice"}, headers: headers})
		b, _ := d.Binding()
		fmt.Println(b.Remaining)
	}
	// Output:
	// 9500
	// 5500
}

// A request whose estimate is above the burst takes the burst, and is not denied for good.
func ExampleLimit_UpToBurst() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(10_000).By(keyfuncs.User("userID")).EstimateBy(func(r keyfuncs.Request) int64 {
			if n, err := strconv.ParseInt(keyfuncs.HeaderOf(r, "X-Max-Tokens"), 10, 64); err == nil && n > 0 {
				return n
			}
			return 128_000 // the most that the model writes
		}).UpToBurst(),
	})
	d := limiter.Allow(&request{values: map[any]any{"userID": "alice"}})
	fmt.Println(d.Allowed, d.Results()[0].Remaining, "left while it runs")
	if err := core.Spend(core.NewContext(ctx, d), 812); err != nil {
		panic(err)
	}
	d.Settle(core.Outcome{Status: 200})
	next := limiter.AllowKey(ctx, "user:alice", 9000)
	fmt.Println(next.Allowed, "once it is settled")
	// Output:
	// true 0 left while it runs
	// true once it is settled
}

// Without a limit with an estimate there is nothing to correct, which a handler may
// ignore.
func ExampleCharge() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerDay(10).By(keyfuncs.ClientIP())})
	ctx := core.NewContext(ctx, limiter.AllowKey(ctx, "ip:192.0.2.1", 1))
	fmt.Println(core.Spend(ctx, 120))
	// Output: weblimit: no limit with an estimate was charged for this request
}

// A job gives its slot back when it is done. An outcome without a status is enough for that.
func ExampleDecision_Settle() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.Concurrent(1).By(keyfuncs.User("userID")).Named("jobs"),
	})
	run := func() (allowed bool) {
		d := limiter.AllowKey(ctx, "user:42", 1)
		defer d.Settle(core.Outcome{})
		return d.Allowed
	}
	for range 2 {
		fmt.Println(run())
		if err := limiter.Drain(ctx); err != nil { // slots come back in the background
			fmt.Println(err)
		}
	}
	// Output:
	// true
	// true
}

// Three wrong passwords per account, where only the handler knows the account: the attempt is
// charged before the password is checked, and a success reports status 200.
func ExampleDecision_Settle_failures() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.Per(3, 15*time.Minute).SlidingLog().By(keyfuncs.User("account")).Named("account").RefundOn(core.Successes),
	})
	logIn := func(account, password string) string {
		d := limiter.AllowKey(ctx, keyfuncs.Encode("account", account), 1)
		if !d.Allowed {
			return "wait"
		}
		if password != "opensesame" {
			return "wrong" // not settled, so the attempt counts
		}
		d.Settle(core.Outcome{Status: 200})
		return "welcome"
	}
	for _, password := range []string{"opensesame", "a", "b", "opensesame", "c", "opensesame"} {
		fmt.Println(logIn("alice", password))
		if err := limiter.Drain(ctx); err != nil { // refunds happen in the background
			fmt.Println(err)
		}
	}
	// Output:
	// welcome
	// wrong
	// wrong
	// welcome
	// wrong
	// wait
}

// A client may owe up to 50,000 tokens, and waits that off.
func ExampleLimit_Debt() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(10_000).By(keyfuncs.User("userID")).Estimate(500).Debt(50_000),
	})
	d := limiter.AllowKey(ctx, "user:alice", 500)
	if err := core.Spend(core.NewContext(ctx, d), 30_000); err != nil {
		panic(err)
	}
	d.Settle(core.Outcome{Status: 200})
	next := limiter.AllowKey(ctx, "user:alice", 500)
	fmt.Println(next.Allowed, next.RetryAfter.Round(time.Second))
	// Output: false 2m3s
}
