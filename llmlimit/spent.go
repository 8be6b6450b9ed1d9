package llmlimit

import (
	"context"

	"github.com/weblimit/weblimit/core"
)

// Spent is what a call has spent, for Config.Observe.
type Spent struct {
	Call         Call
	Usage        Usage // what was told, and else the estimate: what is charged
	InputTold    bool  // the input of Usage is what the provider says
	OutputTold   bool  // its output is
	Cost         int64 // in micro-units of the currency of the prices, 0 without prices
	Status       int   // of the answer
	Trusted      bool  // the answer's host is trusted to lower the charge
	EndedAtLimit bool  // the stream was ended, for Config.EndAtEstimate
}

// settle charges what an answer has used to all limits of the meter that were charged an estimate. An error of Spend
// says that a limit was not: another route has it, or the decision was made in an outage.
func (m *Meter) settle(ctx context.Context, c *Spent) {
	price := c.Call.price
	if !c.Trusted {
		price = price.most() // or a body that tells of cached tokens would lower the charge
	}
	for _, b := range *m.budgets.Load() {
		if b.measure != Requests {
			_ = core.Spend(ctx, c.Call.cost(b.measure, c.Usage, price), b.name)
		}
	}
	if m.config.Observe != nil {
		c.Cost = price.Cost(c.Usage)
		m.config.Observe(ctx, *c)
	}
}

// complete completes what an answer has told by the estimate: what was not told counts as it, and without trust nothing
// counts less. An error of a trusted host in which nothing is told has used nothing.
func (c *Spent) complete(told Report, written int64) {
	c.Usage, c.InputTold, c.OutputTold = told.Usage, told.InputTold, told.OutputTold
	failed := c.Trusted && (c.Status < 200 || c.Status > 299)
	if !told.InputTold && !failed || !c.Trusted {
		c.Usage.Input = max(told.Input, c.Call.Input)
	}
	if !told.OutputTold && !failed || !c.Trusted {
		c.Usage.Output = max(told.Output, c.Call.Output, written)
	}
}
