package limittest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
)

// counting is a store that counts charges and refunds.
type counting struct {
	core.Store
	takes, calls atomic.Int64 // calls: refunds, too
	last         atomic.Int64 // when the last charge ended, in nanoseconds since the epoch
}

func (e *env) counting() *counting {
	e.Helper()
	return &counting{Store: e.newStore(e)}
}

func (c *counting) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	c.takes.Add(1)
	c.calls.Add(1)
	defer func() { c.last.Store(time.Now().UnixNano()) }()
	return c.Store.Take(ctx, checks, results)
}

func (c *counting) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	c.calls.Add(1)
	return c.Store.Refund(ctx, checks, results)
}

// asked returns the number of charges since it was last called.
func (c *counting) asked() int64 { return c.takes.Swap(0) }
