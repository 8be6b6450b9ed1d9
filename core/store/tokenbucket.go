package store

import (
	"errors"
	"math/bits"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

// The token bucket stores no tokens but a debt, which drains at Rate per tick down to 0. A
// cost fits while the debt stays within Capacity. The bucket holds the time at which the
// debt ends, so time alone refills it, and readers need not know when it was last read. It
// is the generic cell rate algorithm (ITU-T I.371) on integers. The time is in whole ticks
// and a fraction with the denominator Rate, so no rate drifts.

type tokenBucket struct{}

func (tokenBucket) name() string { return "token bucket" }

func (tokenBucket) integers(r *Rule) (Integers, error) {
	s, exact := bucketIntegers(r.Quota, r.Window, r.Whole)
	switch {
	case !exact:
		return Integers{}, r.inexact()
	case s.Capacity/s.Rate > int64(maxRefill/time.Microsecond)/s.Tick: // in ticks, so that the product can't overflow
		return Integers{}, errors.New("burst must refill within 100 years")
	}
	return s, nil
}

// bucketIntegers picks the finest tick in which a full bucket can be counted.
func bucketIntegers(quota int64, window time.Duration, burst int64) (Integers, bool) {
	for _, tick := range ticks {
		if window.Microseconds()%tick != 0 {
			break
		}
		w := window.Microseconds() / tick
		g := integer.GCD(quota, w)
		s := Integers{Tick: tick, Unit: w / g, Rate: quota / g}
		if s.Rate <= maxInteger && burst <= maxInteger/s.Unit {
			s.Capacity = burst * s.Unit
			return s, true
		}
	}
	return Integers{}, false
}

func (tokenBucket) used(f Form, b *Bucket, now int64) (units, rest, unit int64) {
	whole, fraction := f.debt(b, now)
	whole = min(whole, maxInteger/f.Rate) // exceeded only when the clock was set back
	debt := whole*f.Rate + fraction
	return debt / f.Unit, debt % f.Unit, f.Unit
}

func (tokenBucket) roll(*Rule, *Bucket, int64, int64) {}

// ahead allows for twice the burst, which a bucket can come to owe, and for the burst of another
// class or tier: two windows, if that is longer.
func (tokenBucket) ahead(r *Rule) int64 {
	window := min(r.Window, maxRefill).Microseconds() / r.ints.Tick
	return (2*max(r.ints.Whole/r.ints.Rate+1, window) + 1) * r.ints.Tick
}

// bringBack leaves an empty bucket: how much of the debt is from before is not known.
func (tokenBucket) bringBack(r *Rule, b *Bucket, now int64) bool {
	r.setDebt(b, now, r.ints.Whole)
	return true
}

func (tokenBucket) read(_ *Rule, b *Bucket, now, _ int64, n *[4]int64) {
	n[0], n[1] = b.Form.debt(b, now)
}

func (tokenBucket) charge(r *Rule, b *Bucket, now, cost int64) {
	whole, fraction := b.Form.debt(b, now)
	r.setDebt(b, now, whole*r.ints.Rate+fraction+cost*r.ints.Unit)
}

func (tokenBucket) refund(r *Rule, b *Bucket, now, cost, at int64) { r.refundDebt(b, now, cost, at) }

func (tokenBucket) remaining(r *Rule, n *[4]int64) int64 { return r.debtRemaining(n) }

func (tokenBucket) wait(r *Rule, cost int64, n *[4]int64, one bool) int64 {
	if one { // without queueing
		return r.debtWaitIn(r.Burst*r.ints.Unit, cost, n)
	}
	return r.debtWait(cost, n)
}

func (tokenBucket) emptyAfter(r *Rule, n *[4]int64) int64 {
	if n[1] > 0 {
		return (n[0] + 1) * r.ints.Tick
	}
	return n[0] * r.ints.Tick
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
func (r *Rule) setDebt(b *Bucket, now, debt int64) (whole, fraction int64) {
	whole = debt
	if r.ints.Rate != 1 { // divisions are slow, and the rate of most limits is 1
		whole, fraction = debt/r.ints.Rate, debt%r.ints.Rate
	}
	r.setDebtTicks(b, now, whole, fraction)
	return whole, fraction
}

func (r *Rule) setDebtTicks(b *Bucket, now, whole, fraction int64) {
	b.X = fraction
	if fraction > 0 {
		whole++
	}
	b.Expires = 0
	if whole > 0 {
		b.Expires = (integer.InTicks(now, r.ints.Tick) + whole) * r.ints.Tick
	}
}

// level returns the debt. It reports false if the bucket can't hold that much: when the
// clock was set back, the debt looks larger than it is.
func (r *Rule) level(n *[4]int64) (debt int64, holds bool) {
	high, low := bits.Mul64(uint64(n[0]), uint64(r.ints.Rate))
	if high != 0 || low > uint64(r.ints.Capacity) {
		return 0, false
	}
	return int64(low) + n[1], true
}

func (r *Rule) debtFits(cost int64, n *[4]int64) bool {
	debt, holds := r.level(n)
	return holds && debt+cost*r.ints.Unit <= r.ints.Capacity
}

// debtWait compares in ticks, which can't overflow even if the clock was set back and the
// debt looks larger than the bucket.
func (r *Rule) debtWait(cost int64, n *[4]int64) int64 {
	return r.debtWaitIn(r.ints.Capacity, cost, n)
}

// debtWaitIn is debtWait for a bucket of the given capacity.
func (r *Rule) debtWaitIn(capacity, cost int64, n *[4]int64) int64 {
	if n[1] == beyond {
		return n[0] * r.ints.Tick
	}
	room := capacity - cost*r.ints.Unit - n[1]
	slack := room / r.ints.Rate // whole ticks of debt that leave room for cost
	if room < 0 {
		slack = -integer.CeilDiv(-room, r.ints.Rate)
	}
	return max(n[0]-slack, 0) * r.ints.Tick
}

func (r *Rule) debtRemaining(n *[4]int64) int64 {
	debt, holds := r.level(n)
	if !holds {
		return 0
	}
	return (r.Burst*r.ints.Unit - debt) / r.ints.Unit // negative if requests queue
}

// inDebt converts units to debt. It cuts off what exceeds twice the bucket, so that it
// can't overflow.
func (r *Rule) inDebt(units int64) int64 {
	return min(units, 2*(r.ints.Whole/r.ints.Unit+1)) * r.ints.Unit
}

// refundDebt gives back cost less what the bucket has regained since the charge. Without
// the charge that much would have been lost in a full bucket; giving it back too would
// admit more than a burst.
func (r *Rule) refundDebt(b *Bucket, now, cost, at int64) {
	debt := min(r.inDebt(cost), r.ints.Whole) // more can't have been charged under these numbers
	elapsed := max(integer.InTicks(now, r.ints.Tick)-integer.InTicks(at, r.ints.Tick), 0)
	if elapsed > debt/r.ints.Rate {
		return
	}
	debt -= elapsed * r.ints.Rate
	whole, fraction := b.Form.debt(b, now)
	whole -= debt / r.ints.Rate
	fraction -= debt % r.ints.Rate
	if fraction < 0 {
		whole, fraction = whole-1, fraction+r.ints.Rate
	}
	if whole < 0 {
		whole, fraction = 0, 0
	}
	r.setDebtTicks(b, now, whole, fraction)
}

// ChargedAt returns the time of a charge to be used for its refund, in microseconds since
// the epoch. charged is the result of the charge, and units are its cost. For a token
// bucket it is the time from which on the bucket regains this charge: it first regains the
// debt that was there before, and a refund leaves out what is regained already. For a calendar
// window it lies in the window that was charged: see [Rule.PeriodOf]. For other algorithms it is charged.At.
func (r *Rule) ChargedAt(units int64, charged *Result) int64 {
	switch r.Algorithm {
	case TokenBucket:
	case Calendar, Ledger:
		start, _ := r.PeriodOf(charged)
		return max(charged.At, start)
	default:
		return charged.At
	}
	tick := r.ints.Tick
	ticks := charged.ResetAfter.Microseconds() / tick // how long the debt lasts at least
	if r.ints.Rate > 1 {
		ticks-- // the last may be a fraction
	}
	ticks -= integer.CeilMulDiv(min(units, r.Whole), r.ints.Unit, r.ints.Rate)
	return charged.At + max(ticks, 0)*tick
}
