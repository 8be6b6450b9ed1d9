package core_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// counts counts decisions by limit and reason. It does not need Settled, which the embedded
// NopObserver has.
type counts struct {
	core.NopObserver

	mu sync.Mutex
	of map[string]int // Guarded by mu.
}

func (c *counts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[name]++
}

// Decided implements core.Observer.
func (c *counts) Decided(_ context.Context, o *core.Observation) {
	c.add(o.Limit() + ": " + o.Decision.Reason.String())
	for _, r := range o.Decision.Results() {
		if r.Shadow && !r.Allowed {
			c.add(r.Rule.Name + ": would have denied")
		}
	}
}

// StoreEvent implements core.Observer.
func (c *counts) StoreEvent(e core.Event) { c.add("store: " + string(e.Kind)) }

// Decisions are counted by limit and reason, and what a limit in shadow mode would have
// denied.
func ExampleObserver() {
	decisions := &counts{of: map[string]int{}}
	limiter := core.Must(core.New(core.Config{
		Store: core.NewMemory(),
		Limits: []core.Limit{
			core.PerMinute(3).By(keyfuncs.User("userID")).Named("user"),
			core.PerMinute(2).By(keyfuncs.User("userID")).Named("trial").Shadow(),
		},
		Observe: decisions,
	}))
	for range 5 {
		limiter.AllowKey(ctx, "user:42", 1)
	}
	fmt.Println(decisions.of)
	// Output:
	// map[trial: would have denied:3 user: limit exceeded:2 user: shadowed:1 user: within limit:2]
}
