package core

import "context"

type decisionKey struct{}

// decisionContext holds its decision by value: one allocation for both.
type decisionContext struct {
	context.Context
	decision Decision
}

func (c *decisionContext) Value(key any) any {
	if _, ok := key.(decisionKey); ok {
		return &c.decision
	}
	return c.Context.Value(key)
}

// NewContext returns a context from which [FromContext] gets the decision.
// Adapters call it.
func NewContext(ctx context.Context, d Decision) context.Context {
	return &decisionContext{ctx, d}
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
