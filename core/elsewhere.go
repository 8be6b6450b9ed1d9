package core

import (
	"context"
	"errors"
	"sync"
	"time"
	"weak"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/seam"
)

// The reservation of a request that somebody else has decided. That one knows what is charged under which
// keys, and what is given back for which outcome. It is told once, when the request has ended: the outcome,
// and the costs that the handler reported. Until then it is asked to renew what it holds.

// elsewhere is what somebody else says of a decision beside its results, and what that one holds.
type elsewhere struct {
	status  int      // of a denial; 0 for that of the reason
	version string   // of the configuration that decided
	classes []string // of the request, by the class of a result

	holder  seam.Elsewhere // nil if nothing is held
	ending  *seam.Ending   // how the request has ended. Guarded by reservation.mu.
	renewal *time.Timer    // of what is held. Guarded by reservation.mu.

	// Held while the holder is asked: the end is told after a renewal that is under way, which can give what is held
	// another name. Nothing but this one reservation waits for it, in the background.
	asking sync.Mutex
}

// untold reports whether the holder has to be told of the end. The reservation's mu is held.
func (e *elsewhere) untold(settled bool) bool {
	return e.holder != nil && e.ending != nil && !settled
}

// settles reports whether anything may still change. A decision of somebody else may have a reservation for
// what else it says.
func (r *reservation) settles() bool {
	return r.elsewhere != nil && r.elsewhere.holder != nil || len(r.charges) > 0
}

// follow prepares a reservation that is held elsewhere: its estimates, for Spend, and its renewals.
func (r *reservation) follow(v *verdict) {
	r.elsewhere.holder = v.Held
	for _, i := range v.Estimated {
		of := &v.Results[i]
		r.charges = append(r.charges, charge{limit: &limit{rule: *of.Rule, estimate: true}, check: Check{Rule: of.Rule}})
	}
	if v.RenewIn > 0 {
		r.mu.Lock()
		r.renewElsewhereIn(v.RenewIn)
		r.mu.Unlock()
	}
}

// renewElsewhereIn plans the next renewal. The weak pointer ends those of a decision that is never settled,
// once it is garbage. r.mu is held.
func (r *reservation) renewElsewhereIn(in time.Duration) {
	held := weak.Make(r)
	r.elsewhere.renewal = time.AfterFunc(in, func() {
		if r := held.Value(); r != nil {
			r.renewElsewhere()
		}
	})
}

// renewElsewhere renews what is held. If the request ends meanwhile, that is told after the renewal.
func (r *reservation) renewElsewhere() {
	r.elsewhere.asking.Lock()
	defer r.elsewhere.asking.Unlock()
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	if ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limiter.timeout)
	defer cancel()
	again := r.elsewhere.holder.Renew(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if again > 0 && !r.ended {
		r.renewElsewhereIn(again)
	}
}

// endElsewhere settles once.
func (r *reservation) endElsewhere(e seam.Ending) {
	r.change(func() {
		if r.ended {
			return
		}
		r.ended, r.elsewhere.ending = true, &e
		if r.elsewhere.renewal != nil {
			r.elsewhere.renewal.Stop()
		}
	})
}

// tellElsewhere says how the request has ended. While nobody answers it is kept, and told again later: whoever
// holds the charges settles them once, however often it is told.
func (r *reservation) tellElsewhere() (settled bool) {
	r.elsewhere.asking.Lock()
	defer r.elsewhere.asking.Unlock()
	r.mu.Lock()
	e := *r.elsewhere.ending
	e.Costs = r.costs()
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), r.limiter.timeout)
	defer cancel()
	err := r.elsewhere.holder.Settle(ctx, e)
	if failed := (*store.Error)(nil); errors.As(err, &failed) && r.shared.settler.keep(r) {
		return false
	}
	if err != nil {
		r.shared.settler.gaveUp()
		r.shared.Lost(1, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled, r.telling = true, false
	return true
}

// costs returns what the handler has reported, by limits. r.mu is held.
func (r *reservation) costs() map[string]int64 {
	costs := make(map[string]int64)
	for i := range r.charges {
		if c := &r.charges[i]; c.told {
			costs[c.check.Rule.Name] = c.spent
		}
	}
	return costs
}
