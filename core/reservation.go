package core

import (
	"bytes"
	"context"
	"math"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// reservation is what a request was charged and what may still change after it:
// given back, or corrected to what it really cost. Only requests of limits that
// ask for it have one.
type reservation struct {
	limiter *Limiter
	store   Store        // which charged: the limiter's, or what stood in for it
	shared  *shared      // of that store
	outer   *reservation // of the limiter around this one, or nil
	began   time.Time
	delayed time.Duration // how long the request waited for its turn

	mu      sync.Mutex
	ended   bool     // it is being settled, or was. Guarded by mu.
	settled bool     // Guarded by mu.
	denied  bool     // its decision became a denial: what it charged is not observed. Guarded by mu.
	telling bool     // the store is being told of differences. Guarded by mu.
	charges []charge // Guarded by mu.
}

// charge is what one limit took.
type charge struct {
	limit    *limit
	check    Check  // as it was charged, with a key of its own
	result   Result // of the charge
	first    int64  // units that the decision took: none for a repeated operation
	taken    int64  // units that the store has taken by now
	spent    int64  // what the handler said it cost
	told     bool   // it said so
	refunded bool   // what the handler did not say to have spent is to be given back
	renewal  renewal
}

// due returns the units that the store should have taken. While the handler runs
// nothing is given back, and what it spends is charged one estimate at a time. What
// it has told to have spent is never given back.
func (c *charge) due(settled bool) int64 {
	switch {
	case c.slots() && settled:
		return 0
	case c.refunded:
		return c.spent
	case c.told && (settled || c.spent-c.taken >= c.check.Cost):
		return c.spent
	case settled:
		return c.first
	}
	return c.taken
}

// slots reports whether the units are held while the request runs, and no longer.
func (c *charge) slots() bool { return c.check.Rule.Algorithm == store.Concurrency }

// reserves reports whether something follows for the limit after the handler.
func (l *limit) reserves() bool {
	return l.refundOn != nil || l.estimate || l.rule.Algorithm == store.Concurrency
}

// reserve notes what a call charged that may still change.
func (l *Limiter) reserve(ctx context.Context, d *Decision, c *call, store Store, shared *shared) {
	var charges []charge
	for i := range c.results {
		if !l.settles(c, i) {
			continue
		}
		check := c.checks[i]
		check.Key, check.Once = bytes.Clone(check.Key), bytes.Clone(check.Once) // the call's are used again
		noted := charge{limit: c.limits[i], check: check, result: c.results[i]}
		if c.results[i].Charged {
			noted.first, noted.taken = check.Cost, check.Cost
		}
		charges = append(charges, noted)
	}
	if len(charges) == 0 {
		return
	}
	r := &reservation{limiter: l, store: store, shared: shared, began: time.Now(), charges: charges}
	r.outer = reservationIn(ctx)
	for i := range charges {
		if charges[i].slots() {
			r.renewLater(i)
		}
	}
	d.held = r
}

// settles reports whether a call's i-th check was charged in a way that may change. A
// repeat takes nothing, and what its handler tells to have spent is charged all the same.
func (l *Limiter) settles(c *call, i int) bool {
	switch r := &c.results[i]; {
	case c.checks[i].Cost == 0:
		return false
	case r.Repeated:
		return c.limits[i].estimate
	default:
		return r.Charged && (l.waits || c.limits[i].reserves())
	}
}

// Settle ends what the decision has reserved, by the request's outcome. The first
// call counts; others do nothing. It returns at once: the store is told in the
// background, together with others, and by the caller itself only if too many
// wait already. Adapters call it; those who ask with [Limiter.AllowKey] do, too:
//
//	defer d.Settle(core.Outcome{})
func (d *Decision) Settle(o Outcome) {
	if d.held != nil {
		d.held.settle(o)
	}
}

func (r *reservation) settle(o Outcome) {
	if o.Duration == 0 {
		o.Duration = time.Since(r.began)
	}
	o.Canceled = o.brokenOff()
	r.end(func(c *charge) bool { return c.limit.refundOn != nil && c.limit.refundOn(o) })
}

// cancel gives back all of it: the request does not take place.
func (r *reservation) cancel() {
	r.mu.Lock()
	r.denied = true
	r.mu.Unlock()
	r.end(func(*charge) bool { return true })
}

// end settles once. refund says what is given back. It is the application's, and so
// runs without the lock. Should it panic, all others are settled still.
func (r *reservation) end(refund func(*charge) bool) {
	r.mu.Lock()
	ended := r.ended
	r.ended = true
	r.mu.Unlock()
	if ended {
		return
	}
	refunded := make([]bool, len(r.charges))
	defer r.change(func() {
		r.settled = true
		for i := range r.charges {
			r.charges[i].refunded = refunded[i]
		}
	})
	for i := range r.charges {
		if timer := r.charges[i].renewal.timer; timer != nil {
			timer.Stop()
		}
	}
	r.refunds(0, refund, refunded)
}

// refunds finds out which charges from the i-th on are given back.
func (r *reservation) refunds(i int, refund func(*charge) bool, refunded []bool) {
	if i < len(refunded) {
		defer r.refunds(i+1, refund, refunded)
		refunded[i] = refund(&r.charges[i])
	}
}

// spend notes a cost for all estimates, and reports whether there are any.
func (r *reservation) spend(n int64) (found bool) {
	r.change(func() {
		for i := range r.charges {
			c := &r.charges[i]
			if !c.limit.estimate {
				continue
			}
			found = true
			// More than a client can come to owe makes no difference.
			c.spent, c.told = min(c.spent+min(n, math.MaxInt64-c.spent), 3*c.check.Rule.Whole), true
		}
	})
	return found
}

// change changes charges, and has the store told if it should know.
func (r *reservation) change(how func()) {
	r.mu.Lock()
	how()
	start := !r.telling && r.differs()
	r.telling = r.telling || start
	r.mu.Unlock()
	if start {
		r.shared.settler.add(r)
	}
}

// differs reports whether the store should be told of something. r.mu is held.
func (r *reservation) differs() bool {
	for i := range r.charges {
		if r.charges[i].differs(r.settled) {
			return true
		}
	}
	return false
}

func (c *charge) differs(settled bool) bool {
	return !c.renewal.running && c.due(settled) != c.taken
}

// next returns what the store is to be told: units to give back, and units to
// charge in addition. It is told of one after the other, so that nothing is given
// back that is not charged yet.
func (r *reservation) next() (refunds, charges call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.charges {
		c := &r.charges[i]
		if !c.differs(r.settled) {
			continue
		}
		check, to := c.check, &charges
		check.Shadow = false
		check.Cost = c.due(r.settled) - c.taken
		c.taken += check.Cost
		if check.Cost < 0 {
			check.Cost, to = -check.Cost, &refunds
		}
		if !c.refunded {
			check.Once = nil // the operation is done
		}
		to.limits, to.checks, to.results = append(to.limits, c.limit), append(to.checks, check), append(to.results, c.result)
	}
	return refunds, charges
}

// told notes that the store knows, or never will, and reports whether there is
// something else by now.
func (r *reservation) told() (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.telling = r.differs()
	return r.telling
}
