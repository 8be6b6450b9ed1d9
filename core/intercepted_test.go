package core_test

import (
	"context"

	"github.com/weblimit/weblimit/core"
)

// intercepted is a store in memory whose calls pass enter first, which can count, delay and fail them.
type intercepted struct {
	*core.Memory
	enter func(ctx context.Context, call string, checks []core.Check) error
}

func intercept(enter func(ctx context.Context, call string, checks []core.Check) error) intercepted {
	return intercepted{core.NewMemory(), enter}
}

func (s *intercepted) pass(ctx context.Context, call string, checks []core.Check, results []core.Result, then func(context.Context, []core.Check, []core.Result) error) error {
	if err := s.enter(ctx, call, checks); err != nil {
		return err
	}
	return then(ctx, checks, results)
}

func (s *intercepted) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.pass(ctx, "Take", checks, results, s.Memory.Take)
}

func (s *intercepted) Peek(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.pass(ctx, "Peek", checks, results, s.Memory.Peek)
}

func (s *intercepted) Charge(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.pass(ctx, "Charge", checks, results, s.Memory.Charge)
}

func (s *intercepted) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.pass(ctx, "Refund", checks, results, s.Memory.Refund)
}

func (s *intercepted) Renew(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.pass(ctx, "Renew", checks, results, s.Memory.Renew)
}

func (s *intercepted) Reset(ctx context.Context, checks []core.Check) error {
	if err := s.enter(ctx, "Reset", checks); err != nil {
		return err
	}
	return s.Memory.Reset(ctx, checks)
}
