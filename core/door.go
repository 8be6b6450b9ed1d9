package core

import (
	"context"

	"github.com/weblimit/weblimit/internal/seam"
)

// What core offers to those who build on it, by packages core/adapter and internal/compose, and does not export.
func init() {
	seam.Open(&seam.Door[Config, Decision, Header, Limit, Limiter, LimitResult, Outcome, Reason, Warning]{
		Deciding: seam.Deciding[Decision, Limiter, LimitResult, Outcome, Warning]{
			Decide:    (*Limiter).decideRequest,
			DecideKey: (*Limiter).decideGuard,
			Peek:      (*Limiter).peekRequest,
			Together:  decideTogether,
			Settle:    settleHeld,
		},
		Following: seam.Following[Decision, Header]{
			SetHeaders:  (*Decision).setHeaders,
			Reservation: (*Decision).reservation,
		},
		Building: seam.Building[Config, Limit, Limiter, LimitResult, Reason]{
			New:      newLimiter,
			Replace:  replace,
			Join:     (*Limiter).join,
			ForStore: Limit.forStore,
			Share: func(c *Config) (func(context.Context) error, error) {
				return c.drain, c.prepare()
			},
		},
	})
}

// reservation returns what the decision has reserved, or nil.
func (d *Decision) reservation() seam.Reservation {
	if d.held == nil || !d.held.settles() {
		return nil
	}
	return d.held
}

// ReadsOutcome implements [seam.Reservation].
func (r *reservation) ReadsOutcome() bool { return r.limiter.readsOutcome }
