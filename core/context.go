package core

import "context"

type decisionKey struct{}

// DecisionContext is a context that holds a decision, by value so that adapters
// can allocate both, and what else belongs to a request, as one. Neither field
// changes once it is in use.
type DecisionContext struct {
	context.Context
	Decision Decision
}

// Value implements [context.Context].
func (c *DecisionContext) Value(key any) any {
	switch key.(type) {
	case decisionKey:
		return &c.Decision
	case reservationKey:
		if c.Decision.held != nil { // else that of a limiter around this one
			return c.Decision.held
		}
	}
	return c.Context.Value(key)
}

// NewContext returns a context from which [FromContext] gets the decision, for
// adapters that have no use for a [DecisionContext] of their own.
func NewContext(ctx context.Context, d Decision) context.Context {
	return &DecisionContext{ctx, d}
}

// FromContext returns the decision of the limiter nearest to the handler. It
// reports false if none decided the request.
func FromContext(ctx context.Context) (Decision, bool) {
	d, ok := ctx.Value(decisionKey{}).(*Decision)
	if !ok {
		return Decision{}, false
	}
	return *d, true
}
