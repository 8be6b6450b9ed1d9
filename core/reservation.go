package core

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/seam"
)

// reservation holds the charges of a request that may still change: they are given back, or
// corrected to the real cost. Only requests under limits that need it have one.
type reservation struct {
	limiter *Limiter
	store   Store        // that charged: the limiter's, or the one that decided in an outage
	shared  *shared      // by the limiters of that store
	outer   *reservation // of the limiter around this one, or nil
	began   time.Time
	delayed time.Duration // how long the request waited for its turn

	elsewhere *elsewhere // of a decision that somebody else has made, whose charges are none; else nil

	mu      sync.Mutex
	ended   bool     // settling has begun. Guarded by mu.
	settled bool     // it is known what is given back. Guarded by mu.
	denied  bool     // its decision became a denial: what it charged is not observed. Guarded by mu.
	telling bool     // a worker tells the store, or is about to. Guarded by mu.
	charges []charge // Guarded by mu.
}

// charge is what one limit has charged.
type charge struct {
	limit    *limit
	check    Check  // as it was charged, with a copy of the key
	result   Result // of the charge
	first    int64  // units that the decision charged: none for a repeated operation
	taken    int64  // units that are charged now, as far as the store was told
	spent    int64  // the cost that the handler reported by Spend
	told     bool   // the handler has reported a cost
	refunded bool   // everything but spent is given back

	spare    bool  // another limit of its choice has paid, whose costs can go on to it: see SpillOver
	passedOn int64 // units that went on to the next charge
	passedTo int64 // units of a spare charge that came from the one before

	elsewhere bool // another process may have charged it: see settleHeld

	renewal renewal
	telling int64       // units that the store is being told: more, or negative, given back
	kept    *keptCharge // what the store has to be told again, or nil
}

// maxSpent bounds what one request is reported to have cost: no limit counts more, and the service takes no more.
const maxSpent = 1 << 53

// due returns the units that should be charged. While the handler runs nothing is given back,
// and costs that it reports are charged step by step. Reported costs are never given
// back.
func (c *charge) due(settled bool) int64 { return c.cost(settled) + c.passedTo - c.passedOn }

// cost is due before anything goes on to another limit.
func (c *charge) cost(settled bool) int64 {
	switch {
	case c.spare:
		return 0
	case c.slots() && settled:
		return 0
	case c.refunded:
		return c.spent
	case c.told && (settled || c.spent-c.taken >= c.step()):
		return c.spent
	case settled:
		return c.first
	}
	return c.taken
}

// step returns how many units beyond those that are charged the store is told of while the handler runs: as many as were
// estimated, or where that was nothing, a part of what the limit holds.
func (c *charge) step() int64 {
	if c.check.Cost > 0 {
		return c.check.Cost
	}
	return max(c.check.Rule.Whole/16, 1)
}

// slots reports whether the units are slots, which are held only while the request runs.
func (c *charge) slots() bool { return c.check.Rule.Algorithm == store.Concurrency }

// reserves reports whether charges of the limit can change after the handler.
func (l *limit) reserves() bool {
	return l.refundOn != nil || l.estimate || l.rule.Algorithm == store.Concurrency
}

// reserve puts those charges of a call that may still change into d's reservation.
func (l *Limiter) reserve(ctx context.Context, d *Decision, c *call, store Store, shared *shared) {
	var charges []charge
	for i := range c.results {
		if !l.settles(c, i) {
			continue
		}
		noted := charge{limit: c.limits[i], check: kept(&c.checks[i]), result: c.results[i]}
		if c.results[i].Charged {
			noted.first, noted.taken = noted.check.Cost, noted.check.Cost
		}
		charges = append(append(charges, noted), c.spares(i)...)
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

// settles reports whether the charge of a call's i-th check may change: one of nothing, too, if it was estimated. A repeated operation
// is charged nothing, but the cost that its handler reports is charged.
func (l *Limiter) settles(c *call, i int) bool {
	switch r := &c.results[i]; {
	case c.checks[i].Cost == 0: // as an estimate it is too low
		return r.Charged && c.limits[i].estimate
	case r.Repeated:
		return c.limits[i].estimate
	default:
		return r.Charged && (l.waits || c.limits[i].reserves())
	}
}

// Settle ends the decision's reservation: it gives back the slots of [Concurrent] limits,
// corrects estimates, and gives back what [Limit.RefundOn] says for the outcome. Only the first
// call counts. It returns at once, and the store is told in the background; only if too many
// reservations wait does the caller tell it.
//
// Adapters call it. After [Limiter.Allow] or [Limiter.AllowKey] call it yourself, since nothing else
// frees slots while the process holds the decision. A deferred call frees slots and corrects
// estimates in any case, and one before it says how the work ended.
//
//	defer d.Settle(core.Outcome{}) // if nothing below has settled it
//	if err := run(); err != nil {
//		d.Settle(core.Outcome{Status: 500, Err: err}) // for core.ServerErrors and core.Failures
//		return err
//	}
//	d.Settle(core.Outcome{Status: 200}) // for core.Successes
//
// An outcome without a status says nothing about success or failure, so that neither
// [Successes] nor [Failures] give anything back for it.
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
	if r.elsewhere != nil {
		r.endElsewhere(seam.Ending{
			Status: o.Status, Canceled: o.Canceled, Panicked: o.Panicked, TimedOut: o.TimedOut, Waited: o.Waited, Duration: o.Duration,
		})
		return
	}
	r.end(func(c *charge) bool { return c.limit.refundOn != nil && c.limit.refundOn(o) })
}

// cancel gives everything back, because the request is denied after all.
func (r *reservation) cancel() {
	if r.elsewhere != nil {
		r.endElsewhere(seam.Ending{Refund: true})
		return
	}
	r.mu.Lock()
	r.denied = true
	r.mu.Unlock()
	r.end(func(*charge) bool { return true })
}

// end settles once. refund reports whether a charge is given back. It calls the application,
// so it runs without the lock. If it panics, the other charges are still settled.
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

// refunds asks which charges from the i-th on are given back. It defers the rest, so that they
// are asked even if one panics.
func (r *reservation) refunds(i int, refund func(*charge) bool, refunded []bool) {
	if i < len(refunded) {
		defer r.refunds(i+1, refund, refunded)
		refunded[i] = refund(&r.charges[i])
	}
}

// spend adds a reported cost to the charges of estimates, of the named limits or of all, and
// reports whether there are any.
func (r *reservation) spend(n int64, names []string) (found bool) {
	r.change(func() {
		for i := range r.charges {
			c := &r.charges[i]
			if !c.limit.estimate || c.spare || r.elsewhere != nil && r.ended || len(names) > 0 && !slices.Contains(names, c.check.Rule.Name) {
				continue
			}
			found = true
			c.spent, c.told = min(c.spent+min(n, math.MaxInt64-c.spent), maxSpent), true
		}
	})
	return found
}

// change changes charges, and has the store told if that makes a difference.
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

// differs reports whether the store has to be told of a change. r.mu is held.
func (r *reservation) differs() bool {
	if r.elsewhere != nil {
		return r.elsewhere.untold(r.settled)
	}
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

// next returns the calls that the store has to be told: units to give back, and units to
// charge in addition. They are made one after the other, so that nothing is given back before
// it is charged. expired is what was kept until it had no meaning any more.
func (r *reservation) next() (refunds, charges call, expired []change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.charges {
		c := &r.charges[i]
		if !c.differs(r.settled) {
			continue
		}
		check, to := c.check, &charges
		check.Shadow = false
		c.telling = c.due(r.settled) - c.taken
		c.taken += c.telling
		if c.telling < 0 && r.forgotInPart(c) {
			c.telling, c.kept = 0, nil
			continue
		}
		if !c.refunded {
			check.Once = nil // the operation was done, so its mark stays
		}
		if check.Cost = r.stillCounts(c); check.Cost == 0 {
			expired = append(expired, c.lose())
			continue
		}
		if c.telling < 0 {
			to = &refunds
		}
		to.limits, to.checks, to.results = append(to.limits, c.limit), append(to.checks, check), append(to.results, c.result)
	}
	return refunds, charges, expired
}

// forgotInPart reports whether the limit of a charge has been lowered since, so that the store has
// forgotten what was used beyond the burst that it has now. Which charges that were, nobody knows: if
// each of them were given back, a client would have the burst several times. r.mu is held.
func (r *reservation) forgotInPart(c *charge) bool {
	if c.check.Rule.Algorithm != store.TokenBucket { // others know what was really used, or give nothing back
		return false
	}
	now, ok := r.shared.Declared(c.check.Rule.Name)
	if !ok {
		return false
	}
	was := c.limit.rule.Whole
	if c.elsewhere { // then the limit is that of now
		if c.limit.tiers != nil || c.limit.scaling != nil {
			return false // the rule may be one of several that the limit has
		}
		was = c.check.Rule.Whole
	}
	return now.Rule.Whole < was
}

// told notes that the calls are made, and reports whether charges have changed meanwhile, or
// have to be told again.
func (r *reservation) told() (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.charges {
		if c := &r.charges[i]; c.telling != 0 {
			c.telling, c.kept = 0, nil
		}
	}
	r.telling = r.differs()
	return r.telling
}
