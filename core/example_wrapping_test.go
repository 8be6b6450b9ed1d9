package core_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// measured wraps a store: it embeds the store and replaces the methods to be measured.
// Its Registry is passed on, and with it all that limiters share through the store.
type measured struct {
	core.Store
	takes atomic.Int64
	took  atomic.Int64 // nanoseconds
}

func (s *measured) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	defer func(start time.Time) {
		s.takes.Add(1)
		s.took.Add(int64(time.Since(start)))
	}(time.Now())
	return s.Store.Take(ctx, checks, results)
}

// To trace or measure a store, embed it. Outages, events and blocks stay those of the
// store inside, however many wrappers there are.
func ExampleStore_wrap() {
	store := &measured{Store: core.NewMemory()}
	limiter := core.ForLimits(store, []core.Limit{core.PerHour(2).By(keyfuncs.ClientIP())})
	for range 3 {
		fmt.Println(limiter.AllowKey(ctx, "ip:192.0.2.1", 1).Allowed)
	}
	fmt.Println(store.takes.Load(), "decisions")
	// Output:
	// true
	// true
	// false
	// 3 decisions
}
