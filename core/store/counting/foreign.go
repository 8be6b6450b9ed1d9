package counting

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// A bucket is foreign to a rule if it was written under other numbers of the limit: by a process of before or
// after a change, or for another tier or scale. Open converts it. If it counts more units than the rule's
// bucket holds, that forgets the rest. A client that alternates between both numbers, in a rolling update for
// example, could then use each of them again and again. So a foreign bucket that exceeds what the rule holds
// stays as it is until enough of it has drained, or its window is over: calls that charge nothing only read it.

// isForeign reports whether a bucket, which may not be opened yet, was written under other numbers than
// r, so that what was charged under r is in it only as far as it was converted. Entries of logs are
// as they were, and what an account has used is told to its book.
func (b *Bucket) isForeign(r *store.Rule, now int64) bool {
	return b.Expires > now && b.Form != formOf(r) && r.Algorithm != store.Ledger && (!IsLog(b.Form.Algorithm) || !IsLog(r.Algorithm))
}

// refundForeign is Refund for a bucket that isForeign, and was not opened. It keeps its numbers. Units
// beyond the burst were forgotten when it was converted to them, so if all that was charged came back,
// a client could have several bursts. A token bucket gets back what drains in the time in which the
// charge would have drained, and no more units than were charged; of others nothing is given back.
func (b *Bucket) refundForeign(r *store.Rule, now, cost, at int64) {
	if r.Algorithm != store.TokenBucket || b.Form.Algorithm != store.TokenBucket {
		return
	}
	f := &b.Form
	back := min(inDebt(r, cost), r.Integers.Whole)
	units := min(back/r.Integers.Unit, integer.Max/f.Unit)
	back = min(back/r.Integers.Rate*r.Integers.Tick, min(units*f.Unit/f.Rate, integer.Longest.Microseconds()/f.Tick)*f.Tick)
	if back -= max(now-at, 0); back > 0 {
		b.Expires -= back / f.Tick * f.Tick
	}
	if b.Expires <= now {
		b.Expires, b.X = 0, 0
	}
}

// exceeds reports whether a bucket, which may not be opened yet, is foreign and counts more than full, Whole or Most of
// r's Integers, so that Open would forget units. One that lasts for longer than two windows of r does not: its
// client would wait for it, although the numbers that were given to the limit since have shorter windows.
func (b *Bucket) exceeds(r *store.Rule, now, full int64) bool {
	if !b.isForeign(r, now) || b.Form.Algorithm == store.Ledger || b.countsUntil(now) > latest(r, now) {
		return false
	}
	units, rest, _ := b.Form.used(b, now)
	holds := full
	if r.Algorithm == store.TokenBucket {
		holds = full / r.Integers.Unit // the queue included
	}
	return units > holds || units == holds && rest > 0
}

// countsUntil returns when a foreign bucket counts nothing any more, which can be before it expires.
func (b *Bucket) countsUntil(now int64) int64 {
	f := &b.Form
	if window := f.Unit * f.Tick; f.Algorithm == store.SlidingWindow && b.X == 0 && now < b.Expires-window {
		return b.Expires - window // all of it was in the window before
	}
	return b.Expires
}

// latest returns the end of two windows from now on, or of the next calendar window.
func latest(r *store.Rule, now int64) int64 {
	switch r.Algorithm {
	case store.Calendar, store.Ledger:
		_, _, next := r.Period(now)
		return next
	case store.TokenBucket:
		return now + r.Integers.Ahead
	}
	return now + 2*r.Integers.Unit*r.Integers.Tick
}

// readForeign sets a reading of a bucket that exceeds r, and was not opened: nothing is left, and the wait is
// the one for cost.
func (b *Bucket) readForeign(r *store.Rule, now, cost int64, reading *Reading) {
	if cost == 0 || cost > r.Burst {
		cost = 1 // no wait is told for it, or none would help; but when something is left is told
	}
	wait := b.foreignWait(r, now, cost)
	ticks := integer.CeilDiv(wait, r.Integers.Tick)
	n := &reading.Numbers
	*n, reading.At = [4]int64{r.Whole, wait, wait, wait}, now
	switch r.Algorithm {
	case store.TokenBucket:
		*n = [4]int64{ticks, beyond}
	case store.SlidingWindow:
		*n = [4]int64{beyond, 0, max(2*r.Integers.Unit-ticks, 0)}
	case store.Concurrency:
		n[1] = min(wait, r.Integers.Unit) // no lease is longer
	}
}

// beyond stands for a count in a sliding window beside which nothing fits before the window is over. In place of
// the fraction of a token bucket's debt it says that the ticks before it are those until the cost fits.
const beyond = 1 << 52

// foreignWait returns the microseconds until r has room for cost beside what a foreign bucket counts: exactly
// for a token bucket, which drains at its own rate, and else until it counts nothing.
func (b *Bucket) foreignWait(r *store.Rule, now, cost int64) int64 {
	f := &b.Form
	if f.Algorithm != store.TokenBucket {
		return b.countsUntil(now) - now
	}
	room := r.Burst - cost
	if r.Algorithm == store.TokenBucket {
		room = (r.Integers.Capacity - cost*r.Integers.Unit) / r.Integers.Unit
	}
	whole, fraction := f.debt(b, now)
	drained := room*f.Unit - fraction
	if drained < 0 {
		return (whole + integer.CeilDiv(-drained, f.Rate)) * f.Tick
	}
	return (whole - drained/f.Rate) * f.Tick
}
