package adapter

import (
	"context"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
)

// Context is a context that holds a decision, for [core.FromContext] and [core.Spend]. It
// holds the decision by value, so that an adapter can allocate both, and what else belongs
// to a request, at once. Neither field changes once the context is in use.
type Context struct {
	context.Context
	Decision core.Decision
}

// Value implements [context.Context].
func (c *Context) Value(key any) any {
	switch key.(type) {
	case seam.DecisionKey:
		return &c.Decision
	case seam.ReservationKey:
		if r := door.Reservation(&c.Decision); r != nil { // else that of a limiter around this one
			return r
		}
	}
	return c.Context.Value(key)
}
