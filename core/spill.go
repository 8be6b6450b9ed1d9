package core

import (
	"context"

	"github.com/weblimit/weblimit/core/store"
)

// SpillOver has costs that turn out to be higher than the estimate go on to the next limit of [First], as far as this one has
// no room for them:
//
//	core.First(plan.Estimate(500).SpillOver(), credits.Estimate(500))
//
// Without it, a limit that has paid is charged all that its request turns out to cost, and can come to owe units. With it the
// rest is charged to the next one, which may spill over as well; the last one is charged whatever is left. Each unit is
// charged once, to one of them, in up to two calls of the store per limit, after the decision. The limits count the same
// units. What the handler reports by [Spend] must be for the limit that has paid: without names, or by its name.
//
// SpillOver needs an [Limit.Estimate] and a next limit: without them it is an error.
func (l Limit) SpillOver() Limit {
	l.settings.set(setSpill)
	return l
}

// spares returns charges of nothing for the limits that the costs of the i-th check of a call can go on to.
func (c *call) spares(i int) (all []charge) {
	if !c.results[i].Charged || !c.limits[i].spills {
		return nil
	}
	for k := i + 1; k < len(c.checks) && c.checks[k].Or && c.limits[k-1].spills; k++ {
		check := kept(&c.checks[k])
		check.Once = nil
		all = append(all, charge{limit: c.limits[k], check: check, result: c.results[k], spare: true})
	}
	return all
}

// spill charges what limits with SpillOver are due beyond what they were charged, as far as they have room for it, and
// passes the rest on to the next. It leaves to the usual way what the store can't be told now.
func (r *reservation) spill() {
	for i := 0; i+1 < len(r.charges); i++ { // charges are never added, so only what is in them is guarded
		c := &r.charges[i]
		if !c.limit.spills || !r.charges[i+1].spare {
			continue
		}
		r.mu.Lock()
		more := c.due(r.settled) - c.taken
		check := c.check
		if c.renewal.running || c.kept != nil {
			more = 0
		}
		c.taken += max(more, 0)
		r.mu.Unlock()
		if more <= 0 {
			continue
		}
		check.Shadow, check.Or, check.Once = false, false, nil
		charged, err := r.takeUpTo(c.limit, &check, more)
		r.mu.Lock()
		rest := more - charged
		c.taken -= rest
		if err == nil {
			c.passedOn += rest
			r.charges[i+1].passedTo += rest
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// takeUpTo takes as many of n units as fit, and tells observers. Its error says that the store has certainly not
// been told of the rest. A call that may have been done counts as done, as in call.
func (r *reservation) takeUpTo(of *limit, check *Check, n int64) (charged int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.limiter.timeout)
	defer cancel()
	for ask := n; ask > 0; {
		check.Cost = ask
		results := make([]Result, 1)
		failed := r.store.Take(ctx, []Check{*check}, results)
		if failed != nil {
			r.shared.Failed(failed)
			if class := store.ErrorOf(failed).Class; class == store.ClassOpen || class == store.ClassOverload {
				return 0, failed
			}
		}
		got := &results[0]
		if failed != nil || got.Charged {
			told := *check
			r.report(&change{limit: of, check: &told, units: ask, err: failed})
			return ask, nil
		}
		if ask < n || got.Blocked { // others were faster
			return 0, nil
		}
		ask = min(got.Remaining, n-1)
	}
	return 0, nil
}
