package core

import (
	"context"
	"errors"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// outageRetry is what a request that is denied for an outage is told to wait.
const outageRetry = time.Second

// decideOutage notes that the store has failed, and decides without it.
func (l *Limiter) decideOutage(ctx context.Context, c *call, s subject, err error, d *Decision) {
	l.shared.Failed(err)
	l.decideWithout(ctx, c, s, err, d)
}

// decideWithout decides by the outage action of each limit, and writes the decision to d.
func (l *Limiter) decideWithout(ctx context.Context, c *call, s subject, err error, d *Decision) {
	local := c.withoutStore()
	local.refused, local.exact = append(local.refused, c.refused...), c.exact
	local.classes = append(local.classes, c.classes...)
	reason, replaced := ReasonOutageAllowed, false // by other limits
	late := store.ErrorOf(err).Late
	for i, limit := range c.limits {
		switch {
		case limit.shadow:
		case limit.outage == Deny && (!late || c.checks[i].Rule.Algorithm != store.Calendar):
			d.Reason, d.RetryAfter, d.Err = ReasonOutageDenied, outageRetry, err
			return
		case limit.outage != Allow:
			reason = ReasonOutageLocal
			local.add(limit, c.checks[i].Rule, c.checks[i].Key, c.checks[i].Cost)
			local.checks[len(local.checks)-1].Once, local.checks[len(local.checks)-1].Share = c.checks[i].Once, c.checks[i].Share
			if c.entries != nil {
				local.entries = append(local.entries, c.entries[i])
			}
		}
	}
	var by Store
	var with *shared
	if reason == ReasonOutageLocal {
		if f := l.fallback; f != nil && len(f.limits) > 0 {
			replaced = true
			local.reset()
			if refused, by := f.ask(local, s); refused != ReasonUndecided {
				d.refuse(refused, by, s.request, local)
				return
			}
		}
		by, with, err = l.decideLocally(ctx, local, err)
		local.by = by
	}
	d.Err = err
	d.sumUp(ctx, local)
	if d.Reason != ReasonNeverFits || replaced { // what never fits won't after the outage either
		d.Reason = reason
	}
	if l.follows && d.Allowed && !c.asked {
		l.reserve(ctx, d, local, by, with)
	}
}

// decideLocally decides the checks of limits whose OutageAction is Local: by the store of
// Config.Fallback if it answers, else by this process's share of the limits. It returns the
// store that decided, what its limiters share, and the errors of the stores that failed.
func (l *Limiter) decideLocally(ctx context.Context, local *call, err error) (Store, *shared, error) {
	if f := l.fallback; f != nil && f.store != nil {
		bounded, began := within(ctx, l.timeout), l.shared.now()
		defer bounded.release()
		failed := local.take(bounded, f.store)
		local.measured(l.shared, began)
		if failed == nil {
			f.shared.Answered()
			return f.store, f.shared, err
		}
		f.shared.Failed(failed)
		err = errors.Join(err, failed)
	}
	for i := range local.checks {
		check := &local.checks[i]
		rule := local.limits[i].localRule(check.Rule)
		if check.Cost <= check.Rule.Burst && !local.exact { // otherwise it can never fit
			check.Cost = min(check.Cost, rule.Burst)
		}
		local.shareLocally(check, local.limits[i])
		check.Rule = rule
	}
	if failed := local.take(ctx, l.shared.local); failed != nil {
		return l.shared.local, l.shared, failed
	}
	for i := range local.results {
		if local.results[i].Charged && reconciles(local.checks[i].Rule) {
			check := &local.checks[i]
			l.shared.untold.add(check.Rule, check.Key, l.shared.localTime(), local.results[i].ResetAfter)
		}
	}
	return l.shared.local, l.shared, err
}
