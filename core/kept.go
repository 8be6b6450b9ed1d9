package core

import (
	"math/rand/v2"
	"time"

	"github.com/weblimit/weblimit/core/store/counting"
)

// retryAfter is the time between two tries to settle what is kept. The jitter differs by
// process, or all would come back at the same moment.
const (
	retryAfter  = 500 * time.Millisecond
	retryJitter = 500 * time.Millisecond
)

// keptCharge is what is known of a change that the store could not be told. As local grants
// that are charged afterwards, it counts only as far as time has not given it back.
type keptCharge struct {
	err error // of the last try

	// Of units that are to be charged: the client's bucket as it was, and as it would be with
	// them.
	without, with counting.Bucket
	units         int64 // of which there are more in with
}

// change is a change to what a limit has charged.
type change struct {
	limit *limit
	check *Check
	units int64 // more, or negative, given back
	err   error // why it is not known whether the store was told, or why it was not

	forgiven int64 // of the units, those that the store has not charged
}

// retryIn returns in how long the store is told again.
func retryIn() time.Duration {
	return retryAfter + rand.N(retryJitter) //nolint:gosec // G404: spreads tries, hides nothing
}

// undo notes that the store has not done some checks of a call, so that it is told again.
func (r *reservation) undo(made *call, checks []int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range checks {
		c := r.chargeOf(made.limits[i])
		if c.kept == nil {
			c.kept = new(keptCharge)
		}
		c.kept.err = err
		if fresh := c.telling - c.kept.units; fresh > 0 && c.telling > 0 {
			c.keep(fresh, r.storeTime(c))
		}
		c.taken -= c.telling
		c.telling = 0
	}
}

// keep adds units to those that are to be charged later. The reservation's mu is held.
func (c *charge) keep(units, now int64) {
	k, rule := c.kept, c.check.Rule
	offset := counting.Offset(rule, c.check.Key)
	if k.units == 0 {
		for _, b := range []*counting.Bucket{&k.without, &k.with} {
			*b = counting.Bucket{}
			b.Open(rule, c.result.At, offset)
			b.ChargeAnyway(rule, c.result.At, rule.Burst-c.result.Remaining)
		}
	}
	k.with.Open(rule, now, offset)
	k.with.ChargeAnyway(rule, now, units)
	k.units += units
}

// count returns how many of the units that are to be charged later still count.
func (k *keptCharge) count(c *Check, now int64) int64 {
	used := func(b *counting.Bucket) int64 {
		if b.Open(c.Rule, now, counting.Offset(c.Rule, c.Key)); b.Unused() {
			return 0
		}
		return b.Used(now)
	}
	return min(max(used(&k.with)-used(&k.without), 0), k.units)
}

// chargeOf returns the charge of a limit. r.mu is held.
func (r *reservation) chargeOf(l *limit) *charge {
	for i := range r.charges {
		if r.charges[i].limit == l {
			return &r.charges[i]
		}
	}
	panic("weblimit: a settlement of a limit that has charged nothing") // can't happen
}

// toldOf returns how many units the store was told to charge, or may have been, or negative,
// to give back: 0 if it has to be told again.
func (r *reservation) toldOf(l *limit) (units int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.chargeOf(l).telling
}

// abandon gives up everything that the store would have to be told again.
func (r *reservation) abandon() (lost []change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.charges {
		if c := &r.charges[i]; c.kept != nil && c.differs(r.settled) {
			c.telling = c.due(r.settled) - c.taken
			c.taken += c.telling
			lost = append(lost, c.lose())
		}
	}
	return lost
}

// lose returns the units that the store was about to be told as given up. The reservation's mu
// is held.
func (c *charge) lose() change {
	lost := change{limit: c.limit, check: &c.check, units: c.telling, err: c.kept.err}
	c.telling, c.kept = 0, nil
	return lost
}

// stillCounts returns how many of the units that the store is about to be told still have a
// meaning. Those that have not been kept have. r.mu is held.
func (r *reservation) stillCounts(c *charge) int64 {
	switch {
	case c.telling < 0 && c.kept != nil && r.forgotten(c):
		return 0
	case c.telling < 0:
		return -c.telling // the store knows what time has given back since the charge
	case c.kept == nil:
		return c.telling
	}
	fresh := max(c.telling-c.kept.units, 0)
	return min(fresh+c.kept.count(&c.check, r.storeTime(c)), c.telling)
}

// forgotten reports whether time has given back what was charged: all of it, or the leases of
// slots have ended. r.mu is held.
func (r *reservation) forgotten(c *charge) bool {
	if c.slots() && !c.renewal.last.IsZero() {
		return time.Since(c.renewal.last) > c.check.Rule.Window
	}
	return time.Since(r.began) > c.result.ResetAfter
}

// storeTime returns the time by the store's clock, in microseconds since the epoch. r.mu is
// held.
func (r *reservation) storeTime(c *charge) int64 {
	return c.result.At + (r.delayed + time.Since(r.began)).Microseconds()
}
