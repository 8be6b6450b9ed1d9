package limittest

import (
	"context"
	"iter"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// patient is a store that has more time than a limiter gives it. Programs whose limiters have the
// default Timeout, 100 ms, are tested over it: a busy machine can take longer, and the outage that
// follows would fail the test.
type patient struct{ core.Store }

func patiently(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return ask(ctx)
}

func (p patient) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	return patiently(ctx, func(ctx context.Context) error { return p.Store.Take(ctx, checks, results) })
}

func (p patient) Peek(ctx context.Context, checks []core.Check, results []core.Result) error {
	return patiently(ctx, func(ctx context.Context) error { return p.Store.Peek(ctx, checks, results) })
}

func (p patient) Charge(ctx context.Context, checks []core.Check, results []core.Result) error {
	return patiently(ctx, func(ctx context.Context) error { return p.Store.Charge(ctx, checks, results) })
}

func (p patient) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	return patiently(ctx, func(ctx context.Context) error { return p.Store.Refund(ctx, checks, results) })
}

func (p patient) Renew(ctx context.Context, checks []core.Check, results []core.Result) error {
	return patiently(ctx, func(ctx context.Context) error { return p.Store.Renew(ctx, checks, results) })
}

func (p patient) Reset(ctx context.Context, checks []core.Check) error {
	return patiently(ctx, func(ctx context.Context) error { return p.Store.Reset(ctx, checks) })
}

func (p patient) Unblock(ctx context.Context, checks []core.Check) error {
	return patiently(ctx, func(ctx context.Context) error { return p.Store.Unblock(ctx, checks) })
}

func (p patient) Block(ctx context.Context, checks []core.Check, d time.Duration) error {
	return patiently(ctx, func(ctx context.Context) error { return p.Store.Block(ctx, checks, d) })
}

func (p patient) Blocks(ctx context.Context, rules []*core.Rule) iter.Seq2[store.Blocked, error] {
	return func(yield func(store.Blocked, error) bool) {
		_ = patiently(ctx, func(ctx context.Context) error {
			p.Store.Blocks(ctx, rules)(yield)
			return nil
		})
	}
}
