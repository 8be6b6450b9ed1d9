package store

import "github.com/weblimit/weblimit/internal/integer"

// Bucket is what a store remembers of one key under one rule. Its meaning
// belongs to the algorithm it was written by:
//
//	token bucket    X: the fraction of a tick, over Rate, that debt ends before Expires
//	fixed window    X: units used in the window that ends at Expires
//	calendar        the same
//	sliding window  X: units used in the current window, Y: in the one before it
//	sliding log     X: units used; the entries are in Log
//	concurrency     X: slots held; the entries are in Log
//
// The zero Bucket is an unused one. From Expires on, a bucket of any algorithm
// says no more than the zero Bucket does. A Bucket is not safe for concurrent use.
type Bucket struct {
	Expires int64 // microseconds since the epoch
	X, Y    int64
	Form    Form
	Log     []Entry // oldest first
}

// Form is what must be known of a rule to read a bucket written under it.
type Form struct {
	Algorithm Algorithm
	Tick      int64
	Unit      int64
	Rate      int64
}

func (r *Rule) form() Form {
	return Form{r.Algorithm, r.scale.Tick, r.scale.Unit, r.scale.Rate}
}

// Open brings b to now under r: an expired bucket becomes an unused one, windows
// roll on, and what was used under other numbers is kept in the new ones, up to
// the burst. It reports whether such a conversion happened: then the bucket has
// to be stored even if nothing is charged, or the wait that was told to a denied
// client would be counted down at the old rate.
func (b *Bucket) Open(r *Rule, now, offset int64) (converted bool) {
	if b.Expires <= now {
		b.Expires, b.X, b.Y, b.Log = 0, 0, 0, b.Log[:0]
	}
	if b.Expires == 0 {
		b.Form = r.form()
		r.roll(b, now, offset)
		return false
	}
	if b.Form.Algorithm == r.Algorithm && b.Form.Unit == r.scale.Unit && b.Form.Rate == r.scale.Rate && b.Form.Tick == r.scale.Tick {
		r.roll(b, now, offset)
		return false
	}
	f := r.form()
	if b.Form.Algorithm.IsLog() && f.Algorithm.IsLog() {
		// The entries know their times: the new window just applies to those that
		// still counted in the old one.
		b.Form.rollLog(b, now)
		b.Form = f
		b.Expires = b.Log[len(b.Log)-1].At + f.Unit
		r.roll(b, now, offset)
		return true
	}
	units, rest, unit := b.Form.used(b, now)
	*b = Bucket{Form: f, Log: b.Log[:0]}
	r.roll(b, now, offset)
	r.adopt(b, now, units, rest, unit)
	return true
}

// Used returns the units that the bucket, unexpired, counts as used: a part of one
// counts whole.
func (b *Bucket) Used(now int64) int64 {
	units, rest, _ := b.Form.used(b, now)
	if rest > 0 {
		units++
	}
	return units
}

// adopt charges an unused bucket with what was used under other numbers.
func (r *Rule) adopt(b *Bucket, now, units, rest, unit int64) {
	if r.Algorithm == TokenBucket {
		debt := r.scale.Whole
		if units < integer.CeilDiv(r.scale.Whole, r.scale.Unit) {
			debt = min(debt, units*r.scale.Unit+integer.CeilMulDiv(rest, r.scale.Unit, unit))
		}
		r.setDebt(b, now, debt)
		return
	}
	if rest > 0 {
		units++
	}
	b.Charge(r, now, min(units, r.Whole))
}

// ChargeAnyway adds cost to an opened bucket, which may come to owe another burst.
func (b *Bucket) ChargeAnyway(r *Rule, now, cost int64) {
	if r.Algorithm != TokenBucket {
		if cost = min(cost, 2*r.Whole-b.X); cost > 0 {
			b.Charge(r, now, cost)
		}
		return
	}
	most := 2 * r.scale.Whole // the queue included
	whole, fraction := b.Form.debt(b, now)
	if whole > most/r.scale.Rate {
		return // of a clock that was set back
	}
	debt := whole*r.scale.Rate + fraction
	r.setDebt(b, now, max(debt, min(debt+r.inDebt(cost), most)))
}

// Refund takes back from an opened bucket a cost that was charged at the given
// time, as Rule.ChargedAt has it, as far as time has not taken it back already.
func (b *Bucket) Refund(r *Rule, now, cost, at int64) {
	if b.Expires == 0 {
		return
	}
	r.refund(b, now, cost, at)
}

// Unused reports whether an opened bucket is worth no memory.
func (b *Bucket) Unused() bool {
	return b.Expires == 0 || (b.Form.Algorithm != TokenBucket && b.X == 0 && b.Y == 0)
}
