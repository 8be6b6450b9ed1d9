package counting

import (
	"math/bits"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// The token bucket stores no tokens but a debt, which drains at Rate per tick down to 0. A
// cost fits while the debt stays within Capacity. The bucket holds the time at which the
// debt ends, so time alone refills it, and readers need not know when it was last read. It
// is the generic cell rate algorithm (ITU-T I.371) on integers. The time is in whole ticks
// and a fraction with the denominator Rate, so no rate drifts.

type tokenBucket struct{}

func (tokenBucket) used(f Form, b *Bucket, now int64) (units, rest, unit int64) {
	whole, fraction := f.debt(b, now)
	whole = min(whole, integer.Max/f.Rate) // exceeded only when the clock was set back
	debt := whole*f.Rate + fraction
	return debt / f.Unit, debt % f.Unit, f.Unit
}

func (tokenBucket) roll(*store.Rule, *Bucket, int64, int64) {}

// bringBack leaves an empty bucket: how much of the debt is from before is not known.
func (tokenBucket) bringBack(r *store.Rule, b *Bucket, now int64) bool {
	b.setDebt(r, now, r.Integers.Whole)
	return true
}

func (tokenBucket) read(_ *store.Rule, b *Bucket, now, _ int64, n *[4]int64) {
	n[0], n[1] = b.Form.debt(b, now)
}

func (tokenBucket) charge(r *store.Rule, b *Bucket, now, cost int64) {
	whole, fraction := b.Form.debt(b, now)
	b.setDebt(r, now, whole*r.Integers.Rate+fraction+cost*r.Integers.Unit)
}

func (tokenBucket) refund(r *store.Rule, b *Bucket, now, cost, at int64) {
	b.refundDebt(r, now, cost, at)
}

func (tokenBucket) remaining(r *store.Rule, n *[4]int64) int64 { return debtRemaining(r, n) }

func (tokenBucket) wait(r *store.Rule, cost int64, n *[4]int64, one bool) int64 {
	if one { // without queueing
		return debtWaitIn(r, r.Burst*r.Integers.Unit, cost, n)
	}
	return debtWait(r, cost, n)
}

func (tokenBucket) emptyAfter(r *store.Rule, n *[4]int64) int64 {
	if n[1] > 0 {
		return (n[0] + 1) * r.Integers.Tick
	}
	return n[0] * r.Integers.Tick
}

// debt returns the ticks until the debt ends: whole + fraction/Rate.
func (f Form) debt(b *Bucket, now int64) (whole, fraction int64) {
	if b.Expires <= now {
		return 0, 0
	}
	whole, fraction = integer.InTicks(b.Expires, f.Tick)-integer.InTicks(now, f.Tick), b.X
	if fraction > 0 {
		whole-- // Expires is the tick after the one in which the debt ends
	}
	return whole, fraction
}

// setDebt sets the debt and returns it in ticks: whole + fraction/Rate.
func (b *Bucket) setDebt(r *store.Rule, now, debt int64) (whole, fraction int64) {
	whole = debt
	if r.Integers.Rate != 1 { // divisions are slow, and the rate of most limits is 1
		whole, fraction = debt/r.Integers.Rate, debt%r.Integers.Rate
	}
	b.setDebtTicks(r, now, whole, fraction)
	return whole, fraction
}

func (b *Bucket) setDebtTicks(r *store.Rule, now, whole, fraction int64) {
	b.X = fraction
	if fraction > 0 {
		whole++
	}
	b.Expires = 0
	if whole > 0 {
		b.Expires = (integer.InTicks(now, r.Integers.Tick) + whole) * r.Integers.Tick
	}
}

// level returns the debt. It reports false if the bucket can't hold that much: when the
// clock was set back, the debt looks larger than it is.
func level(r *store.Rule, n *[4]int64) (debt int64, holds bool) {
	high, low := bits.Mul64(uint64(n[0]), uint64(r.Integers.Rate))
	if high != 0 || low > uint64(r.Integers.Capacity) {
		return 0, false
	}
	return int64(low) + n[1], true
}

func debtFits(r *store.Rule, cost int64, n *[4]int64) bool {
	debt, holds := level(r, n)
	return holds && debt+cost*r.Integers.Unit <= r.Integers.Capacity
}

// debtWait compares in ticks, which can't overflow even if the clock was set back and the
// debt looks larger than the bucket.
func debtWait(r *store.Rule, cost int64, n *[4]int64) int64 {
	return debtWaitIn(r, r.Integers.Capacity, cost, n)
}

// debtWaitIn is debtWait for a bucket of the given capacity.
func debtWaitIn(r *store.Rule, capacity, cost int64, n *[4]int64) int64 {
	if n[1] == beyond {
		return n[0] * r.Integers.Tick
	}
	room := capacity - cost*r.Integers.Unit - n[1]
	slack := room / r.Integers.Rate // whole ticks of debt that leave room for cost
	if room < 0 {
		slack = -integer.CeilDiv(-room, r.Integers.Rate)
	}
	return max(n[0]-slack, 0) * r.Integers.Tick
}

func debtRemaining(r *store.Rule, n *[4]int64) int64 {
	debt, holds := level(r, n)
	if !holds {
		return 0
	}
	return (r.Burst*r.Integers.Unit - debt) / r.Integers.Unit // negative if requests queue
}

// inDebt converts units to debt. It cuts off what exceeds all that the bucket can come to owe, so that it
// can't overflow.
func inDebt(r *store.Rule, units int64) int64 {
	return min(units, r.Integers.Most/r.Integers.Unit+2) * r.Integers.Unit
}

// refundDebt gives back cost less what the bucket has regained since the charge. Without
// the charge that much would have been lost in a full bucket; giving it back too would
// admit more than a burst.
func (b *Bucket) refundDebt(r *store.Rule, now, cost, at int64) {
	debt := min(inDebt(r, cost), r.Integers.Whole) // more can't have been charged under these numbers
	elapsed := max(integer.InTicks(now, r.Integers.Tick)-integer.InTicks(at, r.Integers.Tick), 0)
	if elapsed > debt/r.Integers.Rate {
		return
	}
	debt -= elapsed * r.Integers.Rate
	whole, fraction := b.Form.debt(b, now)
	whole -= debt / r.Integers.Rate
	fraction -= debt % r.Integers.Rate
	if fraction < 0 {
		whole, fraction = whole-1, fraction+r.Integers.Rate
	}
	if whole < 0 {
		whole, fraction = 0, 0
	}
	b.setDebtTicks(r, now, whole, fraction)
}

// ChargedAt returns the time of a charge to be used for its refund, in microseconds since
// the epoch. charged is the result of the charge, and units are its cost. For a token
// bucket it is the time from which on the bucket regains this charge: it first regains the
// debt that was there before, and a refund leaves out what is regained already. For a calendar
// window it lies in the window that was charged: see [store.Rule.PeriodOf]. For other algorithms it is charged.At.
func ChargedAt(r *store.Rule, units int64, charged *store.Result) int64 {
	switch r.Algorithm {
	case store.TokenBucket:
	case store.Calendar, store.Ledger:
		start, _ := r.PeriodOf(charged)
		return max(charged.At, start)
	default:
		return charged.At
	}
	tick := r.Integers.Tick
	ticks := charged.ResetAfter.Microseconds() / tick // how long the debt lasts at least
	if r.Integers.Rate > 1 {
		ticks-- // the last may be a fraction
	}
	ticks -= integer.CeilMulDiv(min(units, r.Whole), r.Integers.Unit, r.Integers.Rate)
	return charged.At + max(ticks, 0)*tick
}
