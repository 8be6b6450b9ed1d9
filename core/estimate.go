package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Estimate charges n units per request for now, and what it really was once the
// handler has told with [Charge]: tokens of a model, bytes, rows. Without a word
// from the handler the estimate stays.
//
// Requests at the same time are held back by their estimates alone, so a limit is
// exceeded by at most what those under way turn out to cost beyond them: however
// many come, no more run at once than their estimates fit. What a handler charges
// beyond a further estimate while it still runs is charged then.
func (l Limit) Estimate(n int64) Limit {
	l.cost, l.estimate = n, true
	return l
}

// EstimateBy takes the estimate from the request, as [Limit.CostBy] takes a cost.
// One of 0 asks for nothing: then the request passes, and nothing that it is said
// to cost is charged.
func (l Limit) EstimateBy(f func(keyfuncs.Request) int64) Limit {
	l.costBy, l.estimate = f, true
	return l
}

// ErrNoEstimate is what [Charge] returns where there is nothing to correct: no
// limit with an estimate was charged for the request.
var ErrNoEstimate = errors.New("weblimit: no limit with an estimate was charged for this request")

// Charge adds n units to what the request with this context has really cost. The
// sum of all calls takes the place of the estimate, for all limits that have one
// ([Limit.Estimate]), up or down. Costs are charged whether or not they fit: a
// client can come to owe a second burst, and no more. So a handler that generates
// for as long as its client likes must stop by itself, at its estimate or at a
// bound of its own.
//
// What was told stays charged, also when [Limit.RefundOn] then gives the request
// back: only the rest of the estimate returns. Charge for work when it is done, not
// after the answer is written: a client that hangs up in between has had it.
//
// It returns at once: the store is told in the background. It may be called while
// the handler runs and after it, by several goroutines at once. It returns
// [ErrNoEstimate] where no limit waits for it, such as after a bypass or in an
// outage with [Allow], which a handler may ignore; and an error for a negative n.
func Charge(ctx context.Context, n int64) error {
	if n < 0 {
		return fmt.Errorf("weblimit: Charge: units must not be negative, got %d", n)
	}
	r := reservationIn(ctx)
	found := false
	for ; r != nil; r = r.outer {
		found = r.spend(n) || found
	}
	if !found {
		return ErrNoEstimate
	}
	return nil
}
