package store

import (
	"math/bits"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

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
	f := r.form()
	if b.Form == f || b.Expires == 0 {
		b.Form = f
		r.roll(b, now, offset)
		return false
	}
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

// used returns the units that b holds: whole ones, and rest parts of unit.
func (f Form) used(b *Bucket, now int64) (units, rest, unit int64) {
	switch f.Algorithm {
	case TokenBucket:
		whole, fraction := f.debt(b, now)
		whole = min(whole, maxScaled/f.Rate) // only a clock that was set back can exceed it
		debt := whole*f.Rate + fraction
		return debt / f.Unit, debt % f.Unit, f.Unit
	case SlidingWindow:
		rolled := *b
		f.rollEstimate(&rolled, now, 0)
		previous := rolled.Y * (f.Unit - f.elapsed(&rolled, now))
		return rolled.X + previous/f.Unit, previous % f.Unit, f.Unit
	case SlidingLog, Concurrency:
		return f.live(b.Log, now), 0, 1
	}
	return b.X, 0, 1
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

// roll moves the windows of a bucket of r's own form on to now.
func (r *Rule) roll(b *Bucket, now, offset int64) {
	switch r.Algorithm {
	case FixedWindow:
		r.rollWindow(b, now, offset)
	case Calendar:
		r.rollCalendar(b, now)
	case SlidingWindow:
		b.Form.rollEstimate(b, now, offset)
	case SlidingLog, Concurrency:
		b.Form.rollLog(b, now)
	}
}

// Read describes an opened bucket. The cost is what a sliding log has to say
// the wait for; the others leave that to Result. It fills in the numbers that the
// algorithm has, and leaves the others and Charged as they are.
func (b *Bucket) Read(r *Rule, now, cost int64, reading *Reading) {
	reading.At = now
	switch r.Algorithm {
	case TokenBucket:
		reading.Numbers[0], reading.Numbers[1] = b.Form.debt(b, now)
	case FixedWindow, Calendar:
		reading.Numbers[0], reading.Numbers[1] = b.X, b.Expires-now
	case SlidingWindow:
		reading.Numbers[0], reading.Numbers[1], reading.Numbers[2] = b.X, b.Y, b.Form.elapsed(b, now)
	case SlidingLog:
		r.readLog(b, now, cost, &reading.Numbers)
	case Concurrency:
		r.readSlots(b, now, &reading.Numbers)
	}
}

// Charge adds cost to an opened bucket in which it fits.
func (b *Bucket) Charge(r *Rule, now, cost int64) {
	if cost == 0 {
		return
	}
	switch r.Algorithm {
	case TokenBucket:
		whole, fraction := b.Form.debt(b, now)
		r.setDebt(b, now, whole*r.scale.Rate+fraction+cost*r.scale.Unit)
	case FixedWindow, Calendar:
		b.X += cost
	case SlidingWindow:
		r.chargeEstimate(b, now, cost)
	case SlidingLog, Concurrency:
		r.chargeLog(b, now, cost)
	}
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
	switch r.Algorithm {
	case TokenBucket:
		r.refundDebt(b, now, cost, at)
	case FixedWindow:
		if at >= b.Expires-r.scale.Unit {
			b.X -= min(b.X, cost)
		}
	case Calendar:
		if r.calendar.endOf(at) == b.Expires {
			b.X -= min(b.X, cost)
		}
	case SlidingWindow:
		r.refundEstimate(b, cost, at)
	case SlidingLog:
		r.refundLog(b, cost, at)
	case Concurrency:
		r.freeSlots(b, cost, at)
	}
}

// Unused reports whether an opened bucket is worth no memory.
func (b *Bucket) Unused() bool {
	return b.Expires == 0 || (b.Form.Algorithm != TokenBucket && b.X == 0 && b.Y == 0)
}

// Result derives the answer for a cost from a reading of r's state. It fits
// every store: what differs is who did the reading.
func (r *Rule) Result(cost int64, reading Reading) Result {
	var result Result
	r.Answer(cost, &reading, &result)
	return result
}

// Answer is Result in place: a decision in memory is short enough for copies to
// show.
func (r *Rule) Answer(cost int64, reading *Reading, result *Result) {
	var remaining int64
	switch r.Algorithm {
	case TokenBucket:
		remaining = r.debtRemaining(&reading.Numbers)
	case SlidingWindow:
		remaining = r.estimateRemaining(&reading.Numbers)
	default:
		remaining = r.Burst - reading.Numbers[0]
	}
	*result = Result{
		Allowed:   reading.Charged || r.Fits(cost, reading),
		Charged:   reading.Charged,
		Remaining: max(remaining, 0),
		At:        reading.At,
	}
	if !result.Allowed && cost <= r.Burst {
		result.RetryAfter = micros(r.wait(cost, &reading.Numbers, false))
	}
	switch {
	case r.Algorithm == Concurrency:
		result.Window = slotRetry
		if result.Charged {
			result.At = r.slotsAt(reading)
		}
	case result.RetryAfter > 0:
		result.Window = result.RetryAfter
	case result.Remaining == 0:
		result.Window = micros(r.wait(1, &reading.Numbers, true))
	case r.Algorithm == FixedWindow, r.Algorithm == Calendar:
		result.Window = micros(reading.Numbers[1])
	default:
		result.Window = micros(r.spread(result.Remaining))
	}
	result.ResetAfter = micros(r.emptyAfter(&reading.Numbers))
	if reading.Blocked > 0 {
		result.block(reading.Blocked)
	}
}

// Fits reports whether cost fits into the state that was read.
func (r *Rule) Fits(cost int64, reading *Reading) bool {
	switch {
	case cost == 0:
		return true
	case cost > r.Burst:
		return false
	case r.Algorithm == TokenBucket:
		return r.debtFits(cost, &reading.Numbers) // whose wait takes a division
	}
	return r.wait(cost, &reading.Numbers, false) == 0
}

// wait returns the microseconds until cost, at most the burst, fits: 0 if it
// does. A log's reading has two waits in it: for the cost it was read for, and
// for one unit, which of a bucket is the wait without its queue.
func (r *Rule) wait(cost int64, n *[4]int64, one bool) int64 {
	switch r.Algorithm {
	case TokenBucket:
		if one { // without queueing
			return r.debtWaitIn(r.Burst*r.scale.Unit, cost, n)
		}
		return r.debtWait(cost, n)
	case FixedWindow, Calendar:
		if cost <= r.Burst-n[0] {
			return 0
		}
		return n[1]
	case SlidingWindow:
		return r.estimateWait(cost, n)
	case Concurrency:
		if cost <= r.Burst-n[0] {
			return 0
		}
		return slotRetry.Microseconds()
	}
	if one {
		return n[2]
	}
	return n[1]
}

// emptyAfter returns the microseconds until nothing counts as used any more.
func (r *Rule) emptyAfter(n *[4]int64) int64 {
	switch r.Algorithm {
	case TokenBucket:
		if n[1] > 0 {
			return (n[0] + 1) * r.scale.Tick
		}
		return n[0] * r.scale.Tick
	case FixedWindow, Calendar, Concurrency:
		return n[1]
	case SlidingWindow:
		return r.estimateEmpty(n)
	}
	return n[3]
}

// spread returns the microseconds in which the rule grants n units, at most its burst.
func (r *Rule) spread(n int64) int64 {
	if r.Algorithm == TokenBucket && (r.scale.Rate == 1 || r.scale.Tick <= 1000) {
		// The same in lowest terms: at most maxScaled ticks over Rate, or maxRefill.
		n *= r.scale.Unit * r.scale.Tick
		if r.scale.Rate != 1 { // it is for most limits
			n = integer.CeilDiv(n, r.scale.Rate)
		}
		return n
	}
	w := r.Window.Microseconds()
	if high, low := bits.Mul64(uint64(n), uint64(w)); high == 0 && low < 1<<63 {
		return integer.CeilDiv(int64(low), r.Quota)
	}
	whole, rest := n/r.Quota, n%r.Quota
	return whole*w + integer.CeilMulDiv(rest, w, r.Quota)
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// After returns what would be read of a bucket if units were charged to it that
// fit, right after it was read. A sliding log's reading does not tell enough for
// that: it must be read again.
func (r *Rule) After(reading Reading, units int64) Reading {
	n := &reading.Numbers
	if r.Algorithm == TokenBucket {
		debt := n[0]*r.scale.Rate + n[1] + units*r.scale.Unit
		n[0], n[1] = debt/r.scale.Rate, debt%r.scale.Rate
	} else {
		n[0] += units
	}
	if r.Algorithm == Concurrency {
		n[1] = max(n[1], r.scale.Unit)
	}
	reading.Charged = true
	return reading
}
