package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Estimate charges n units when a request is allowed, for a cost that is known only
// afterwards: tokens of a language model, bytes, rows. The handler reports the actual
// cost with [Spend], which replaces the estimate. Without such a report the estimate
// stays charged.
//
// Only as many requests run at once as fit with their estimates. So a limit is exceeded
// at most by what the running requests cost beyond their estimates. When a running
// handler has reported a whole further estimate, it is charged at once, without waiting
// for the end.
//
// An estimate above the burst is denied, as a cost is, and however long the client waits, it is denied again.
// [Limit.UpToBurst] has it take the burst instead.
//
// With [Limit.Wait], a turn is fixed when the store decides: what running requests give back
// of their estimates later does not bring it forward.
//
// A limit with both an estimate and [Limit.Cost] or [Limit.CostBy] is an error when it is
// used.
func (l Limit) Estimate(n int64) Limit {
	l.settings.set(setEstimate)
	l.cost, l.estimate = n, true
	return l
}

// EstimateBy is [Limit.Estimate] with an estimate for each request, computed by f as by
// [Limit.CostBy]. With an estimate of 0 the request asks for nothing, and so is allowed; what its handler
// reports is charged like what is reported beyond any other estimate: each sixteenth of the burst at once, the
// rest at the end.
func (l Limit) EstimateBy(f func(keyfuncs.Request) int64) Limit {
	l.settings.setTo(setEstimateBy, f == nil)
	l.costBy, l.estimate = f, true
	return l
}

// UpToBurst has an estimate above the burst take the burst: all that the limit ever holds, once it is there. So a
// request whose estimate is too high waits for its turn like others, and is not denied for good.
//
//	core.PerMinute(10_000).By(keyfuncs.User("user")).Named("tokens").EstimateBy(tokens).UpToBurst()
//
// Nothing else changes: what the handler reports with [Spend] takes the place of what was taken, also above the burst,
// up to what a client can come to owe. A tier, a scaled limit and the lower class of [Limit.KeepFree] have a burst of
// their own, which is what is taken. The cost that [Limiter.AllowKey] is asked for is an estimate, too.
//
// A request that takes all is allowed only when nothing is used, and until it is settled nothing is left for
// others of its key. Where several clients share a key, have the estimate bounded by what one of them may have. It is an
// error without [Limit.Estimate] or [Limit.EstimateBy].
func (l Limit) UpToBurst() Limit {
	l.settings.set(setUpToBurst)
	l.upToBurst = true
	return l
}

// capped returns what a request is charged at first under a rule, for what it is asked to cost.
func (l *limit) capped(cost int64, rule *Rule) int64 {
	if l.upToBurst {
		return min(cost, rule.Burst)
	}
	return cost
}

// ErrNoEstimate is returned by [Spend] if no limit with an estimate was charged for
// the request, so that there is nothing to correct.
var ErrNoEstimate = errors.New("weblimit: no limit with an estimate was charged for this request")

// Spend reports that the request with this context has cost n more units. The sum of
// all calls replaces the estimate, up or down, on every limit with [Limit.Estimate], or on
// those that are named: so input and output tokens, or tokens and money, are separate budgets.
//
//	core.Spend(ctx, 812, "output")
//
// Units are charged whether or not they fit. A client can come to owe one more burst,
// and no more; so a handler that produces output for as long as its client likes must
// stop by itself, at its estimate or at a bound of its own.
//
// Reported units stay charged even when [Limit.RefundOn] then refunds the request: only
// the rest of the estimate is given back. Report work when it is done, and not after
// the response is written: a client that hangs up in between has had it.
//
// Spend returns at once, and the store is told in the background. It may be called
// while the handler runs and after it, and concurrently. It returns [ErrNoEstimate] if
// no limit with an estimate was charged, such as after a bypass or during an outage
// with [Allow], or if none of the named limits was; a handler may ignore that. A negative n is
// an error, and so is a name that no limit with an estimate has; nothing is charged then.
func Spend(ctx context.Context, n int64, limits ...string) error {
	if n < 0 {
		return fmt.Errorf("weblimit: Spend: units must not be negative, got %d", n)
	}
	held := reservationIn(ctx)
	if held != nil {
		for _, name := range limits {
			if !hasEstimate(ctx, held, name) {
				return fmt.Errorf("weblimit: Spend: no limit with an estimate that decided this request has the name %q", name)
			}
		}
	}
	found := false
	for r := held; r != nil; r = r.outer {
		found = r.spend(n, limits) || found
	}
	if !found {
		return ErrNoEstimate
	}
	return nil
}

// hasEstimate reports whether a limiter that decided the request has a limit of this name with
// an estimate, whether or not it was charged.
func hasEstimate(ctx context.Context, held *reservation, name string) bool {
	for r := held; r != nil; r = r.outer {
		if r.limiter.hasEstimate(name) {
			return true
		}
	}
	nearest := decisionIn(ctx)
	return nearest != nil && nearest.limiter.hasEstimate(name)
}

func (l *Limiter) hasEstimate(name string) bool {
	if l == nil {
		return false
	}
	if l.remote != nil {
		return true // only what was charged is known
	}
	if l.fallback != nil && estimates(l.fallback.limits, name) {
		return true
	}
	return estimates(l.limits, name)
}

func estimates(limits []limit, name string) bool {
	for i := range limits {
		if limits[i].estimate && limits[i].rule.Name == name {
			return true
		}
	}
	return false
}
