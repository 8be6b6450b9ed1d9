package counting

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// Bucket is what a store keeps for one key under one rule. The algorithm that wrote it
// defines its meaning:
//
//	token bucket    X: how much of the last tick before Expires is debt, in parts of Rate
//	fixed window    X: units used in the window that ends at Expires
//	calendar        the same
//	sliding window  X: units used in the current window, Y: in the one before it
//	sliding log     X: units used; the entries are in Log
//	concurrency     X: slots held; the entries are in Log
//	ledger          X: units used in the window that ends at Expires, Y: the position, which is one of History
//
// The zero Bucket is unused. A bucket that has expired means the same as the zero Bucket,
// so a store can drop it, but that of a ledger had better be kept until [Bucket.KeptUntil]. A
// Bucket is not safe for concurrent use.
//
// Open and Read do not write to the array of Log, so a store can pass its own. What changes
// a bucket can write to that array in place: a store whose write may fail passes a copy.
type Bucket struct {
	Expires int64 // microseconds since the epoch
	X, Y    int64
	Form    Form
	Log     []Entry // oldest first
	History int64   // see store.Account.History; a store that has none need not keep it
}

// Form is the part of a rule that is needed to read a bucket which was written under it.
// A store keeps it with the bucket, so that a limit can change while buckets exist.
type Form struct {
	Algorithm store.Algorithm
	Tick      int64
	Unit      int64
	Rate      int64
}

func formOf(r *store.Rule) Form {
	return Form{r.Algorithm, r.Integers.Tick, r.Integers.Unit, r.Integers.Rate}
}

// Open prepares a stored bucket to be read and changed at now under r, which all other
// methods require. An expired bucket becomes an unused one, and windows move on. A bucket
// that was written under other numbers is converted: what was used stays used, up to the
// burst. A [State] converts it only if nothing is forgotten, or if r has much shorter windows.
//
// A bucket that ends later than it can, because the clock was set back since, is converted, too: it
// counts no longer than one that is written now. Open reports whether it converted the bucket. Such a bucket
// must be written back even if nothing is charged: otherwise the wait that a denied client was given
// would elapse at the old rate, or by the old clock.
//
// now is in microseconds since the epoch, and offset is [Offset] of the key.
func (b *Bucket) Open(r *store.Rule, now, offset int64) (converted bool) {
	return b.openUpTo(r, now, offset, r.Integers.Whole)
}

// openUpTo is Open for a bucket that adopts up to as much as full says, in the rule's Integers: Whole, or Most, to which
// a charge can bring it.
func (b *Bucket) openUpTo(r *store.Rule, now, offset, full int64) (converted bool) {
	if b.Expires <= now && !b.beginNext(r, now) {
		b.Expires, b.X, b.Y, b.Log = 0, 0, 0, b.Log[:0]
	}
	if b.Expires == 0 {
		b.Form = formOf(r)
		b.roll(r, now, offset)
		return false
	}
	if b.Form.Algorithm == r.Algorithm && b.Form.Unit == r.Integers.Unit && b.Form.Rate == r.Integers.Rate && b.Form.Tick == r.Integers.Tick {
		if b.Expires-now > r.Integers.Ahead {
			converted = b.bringBack(r, now)
		}
		b.roll(r, now, offset)
		return converted
	}
	f := formOf(r)
	if IsLog(b.Form.Algorithm) && IsLog(f.Algorithm) {
		// The entries know their times: the new window just applies to those that
		// still counted in the old one.
		b.Form.rollLog(b, now)
		b.Form = f
		b.Expires = b.Log[len(b.Log)-1].At + f.Unit
		if b.Expires-now > r.Integers.Ahead {
			b.bringBack(r, now)
		}
		b.roll(r, now, offset)
		return true
	}
	units, rest, unit := b.Form.used(b, now)
	*b = Bucket{Form: f, Log: b.Log[:0]}
	b.roll(r, now, offset)
	b.adopt(r, now, units, rest, unit, full)
	return true
}

// isOpen reports whether Open would change nothing of a token bucket that counts something.
func (b *Bucket) isOpen(r *store.Rule, now int64) bool {
	f, n := &b.Form, &r.Integers
	return b.Expires > now && b.Expires-now <= r.Integers.Ahead &&
		f.Algorithm == r.Algorithm && f.Unit == n.Unit && f.Rate == n.Rate && f.Tick == n.Tick
}

// Used returns the units that a bucket, which has not expired, counts as used, rounded up.
func (b *Bucket) Used(now int64) int64 {
	units, rest, _ := b.Form.used(b, now)
	if rest > 0 {
		units++
	}
	return units
}

// adopt charges an unused bucket with what was used under other numbers, up to full.
func (b *Bucket) adopt(r *store.Rule, now, units, rest, unit, full int64) {
	if r.Algorithm == store.TokenBucket {
		debt := full
		if units < integer.CeilDiv(debt, r.Integers.Unit) {
			debt = min(debt, units*r.Integers.Unit+integer.CeilMulDiv(rest, r.Integers.Unit, unit))
		}
		b.setDebt(r, now, debt)
		return
	}
	if rest > 0 {
		units++
	}
	b.charge(r, now, min(units, full))
}

// ChargeAnyway charges an opened bucket whether or not the cost fits. Its use can reach Integers.Most, and no more. It
// returns the units that were not charged for that, rounded up.
func (b *Bucket) ChargeAnyway(r *store.Rule, now, cost int64) (forgiven int64) {
	if r.Algorithm != store.TokenBucket {
		if b.isUnknown(r) {
			return 0 // it is charged once the account is known
		}
		charged := min(cost, max(r.Integers.Most-b.X, 0))
		b.charge(r, now, charged)
		return cost - charged
	}
	most := r.Integers.Most // the queue included
	whole, fraction := b.Form.debt(b, now)
	if whole > most/r.Integers.Rate {
		return cost // charged under a larger burst, or the clock was set back
	}
	debt := whole*r.Integers.Rate + fraction
	charged := min(inDebt(r, cost), max(most-debt, 0))
	b.setDebt(r, now, debt+charged)
	return cost - charged/r.Integers.Unit
}

// Unused reports whether an opened bucket holds nothing, so that a store can remove it.
func (b *Bucket) Unused() bool {
	return b.Expires == 0 || (b.Form.Algorithm != store.TokenBucket && b.X == 0 && b.Y == 0)
}
