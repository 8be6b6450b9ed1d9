package core_test

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Mails leave at an even pace, 20 ms apart.
func ExampleLimit_LeakyBucket() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerSecond(50).LeakyBucket(50 * time.Millisecond).By(keyfuncs.Everyone()),
	})
	start := time.Now()
	for range 3 {
		limiter.AllowKey(ctx, "mail", 1) // returns when it is the mail's turn
	}
	fmt.Println("took at least 40ms:", time.Since(start) >= 40*time.Millisecond)
	// Output: took at least 40ms: true
}

// A request that comes too early waits up to a second instead of being denied.
func ExampleLimit_Wait() {
	store := memoryAt(time.Now()) // or a slow test might come late enough
	limiter := core.ForLimits(store, []core.Limit{
		core.PerSecond(2).Burst(1).By(keyfuncs.ClientIP()).Wait(time.Second),
	})
	for range 2 {
		d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
		fmt.Println(d.Allowed, "-", d.Reason, "-", d.Delay() > 0)
	}
	// Output:
	// true - within limit - false
	// true - delayed - true
}

// Once half of the burst is used, requests are delayed: the third by 20 ms, the fourth
// by 40 ms. The fifth is denied.
func ExampleLimit_SlowDown() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(4).By(keyfuncs.ClientIP()).SlowDown(0.5, 40*time.Millisecond),
	})
	for range 5 {
		d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
		fmt.Println(d.Allowed, "delayed:", d.Delay() > 0)
	}
	// Output:
	// true delayed: false
	// true delayed: false
	// true delayed: true
	// true delayed: true
	// false delayed: false
}
