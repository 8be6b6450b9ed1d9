package core

import (
	"context"

	"github.com/weblimit/weblimit/internal/seam"
)

// decisionContext is a context that holds a decision. Package core/adapter has one that
// an adapter can allocate together with what else belongs to a request.
type decisionContext struct {
	context.Context
	decision Decision
}

// Value implements [context.Context].
func (c *decisionContext) Value(key any) any {
	switch key.(type) {
	case seam.DecisionKey:
		return &c.decision
	case seam.ReservationKey:
		if c.decision.held != nil { // else that of a limiter around this one
			return c.decision.held
		}
	}
	return c.Context.Value(key)
}

// NewContext returns a context from which [FromContext] gets the decision and by which
// [Spend] finds the limits with an estimate: for code that has no adapter, such as the
// consumer of a queue.
func NewContext(ctx context.Context, d Decision) context.Context {
	return &decisionContext{ctx, d}
}

// FromContext returns the decision of the limiter nearest to the handler. It
// reports false if none decided the request, or if its adapter has NoContext set.
func FromContext(ctx context.Context) (Decision, bool) {
	d := decisionIn(ctx)
	if d == nil {
		return Decision{}, false
	}
	return *d, true
}

// decisionIn returns the decision nearest to the handler, or nil. A request has the values
// of its context.
func decisionIn(ctx interface{ Value(key any) any }) *Decision {
	d, _ := ctx.Value(seam.DecisionKey{}).(*Decision)
	return d
}

// reservationIn returns the reservation nearest to the handler, or nil.
func reservationIn(ctx context.Context) *reservation {
	r, _ := ctx.Value(seam.ReservationKey{}).(*reservation)
	return r
}
