package prove

import (
	"slices"
	"time"
)

// bucket is what counts of one key under one limit, as the documents describe it. Debt is in units times
// the window, so that a token bucket regains the quota in each microsecond and nothing is rounded.
// Buckets are values: methods that change one work on a copy whose log is its own.
type bucket struct {
	debt, since int64 // token bucket: debt at a time
	rate        int64 // token bucket: what it regains in a microsecond
	start, end  int64 // windows: of the present one
	now, before int64 // windows: units used in it, and in the one before
	log         []entry
	penalty     penalty
}

// owed is the same for buckets that owe the same at any time.
func (b *bucket) owed() int64 {
	if b.debt == 0 {
		return 0
	}
	return b.debt + b.since*b.rate
}

// entry is units that were charged, or slots that were taken, at one time.
type entry struct{ at, units int64 }

// penalty is what counts towards blocks. The block is in force until its end.
type penalty struct {
	denials, counted int64 // denials, and until when they count
	began, until     int64 // the last block
	blocks           int64 // blocks in a row
}

func (b *bucket) clone() *bucket {
	c := *b
	c.log = slices.Clone(b.log)
	return &c
}

// with returns the bucket with another penalty. Each is stored when it changes; until then it is as it
// was written, which makes a difference if the clock is set back.
func (b *bucket) with(p penalty) *bucket {
	c := b.clone()
	c.penalty = p
	return c
}

func (b *bucket) equal(o *bucket) bool {
	return b == o || b.owed() == o.owed() && b.start == o.start && b.end == o.end &&
		b.now == o.now && b.before == o.before && b.penalty == o.penalty && slices.Equal(b.log, o.log)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// dayOf returns the calendar day of a zone that contains a time.
func dayOf(zone string, t int64) (start, end int64) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	y, m, d := time.UnixMicro(t).In(location).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, location).UnixMicro(), time.Date(y, m, d+1, 0, 0, 0, 0, location).UnixMicro()
}

// at brings a bucket to a time: what is over is forgotten.
func (b *bucket) at(l *limit, t int64) *bucket {
	b = b.clone()
	switch l.Algorithm {
	case tokenBucket:
		if b.debt > 0 {
			b.debt = max(b.debt-(t-b.since)*l.Quota, 0)
		}
		b.since, b.rate = t, l.Quota
	case fixedWindow:
		if b.now == 0 || t >= b.end {
			b.begin(l, t)
		}
	case calendarDay:
		if b.now == 0 || t >= b.end {
			b.start, b.end = dayOf(l.Zone, t)
			b.now = 0
		}
	case slidingWindow:
		switch {
		case b.now == 0 && b.before == 0 || t >= b.end+l.Window:
			b.begin(l, t)
		case t >= b.end:
			b.start, b.end = b.end, b.end+l.Window
			b.now, b.before = 0, b.now
		}
	case slidingLog, concurrency:
		b.log = slices.DeleteFunc(b.log, func(e entry) bool { return e.at+l.Window <= t })
	}
	b.penalty = b.penalty.at(l, t)
	return b
}

// at brings a penalty to a time.
func (p penalty) at(l *limit, t int64) penalty {
	if p.counted <= t {
		p.denials, p.counted = 0, 0
	}
	if p.until+l.Max <= t {
		p.blocks = 0
	}
	return p
}

// begin begins the window of the clock that contains t, or the one whose first use is at t.
func (b *bucket) begin(l *limit, t int64) {
	if b.start = t; !l.FromUse {
		b.start -= t % l.Window
	}
	b.end = b.start + l.Window
	b.now, b.before = 0, 0
}

func (b *bucket) logged() (units int64) {
	for _, e := range b.log {
		units += e.units
	}
	return units
}

// level returns what is used at t, in units times scale, and the scale.
func (b *bucket) level(l *limit, t int64) (level, scale int64) {
	switch l.Algorithm {
	case tokenBucket:
		return b.debt, l.Window
	case slidingWindow:
		return b.now*l.Window + b.before*(l.Window-(t-b.start)), l.Window
	case slidingLog, concurrency:
		return b.logged(), 1
	}
	return b.now, 1
}

// fits reports whether a cost fits at t, by which the bucket has been brought there.
func (b *bucket) fits(l *limit, t, cost int64, queue bool) bool {
	if cost == 0 {
		return true
	}
	level, scale := b.level(l, t)
	most := l.holds() * scale
	if queue && l.Wait > 0 {
		most += l.Wait * l.Quota
	}
	return cost <= l.holds() && level+cost*scale <= most
}

// wait returns how long it takes until a cost fits that can fit, by trying.
func (b *bucket) wait(l *limit, t, cost int64, queue bool) int64 {
	if b.fits(l, t, cost, queue) {
		return 0
	}
	long := 2*l.Window + 1
	switch l.Algorithm {
	case tokenBucket:
		long = ceilDiv(b.debt, l.Quota)
	case calendarDay:
		long = b.end - t
	}
	short := int64(0) // it does not fit yet
	for long-short > 1 {
		if half := (short + long) / 2; b.at(l, t+half).fits(l, t+half, cost, queue) {
			long = half
		} else {
			short = half
		}
	}
	return long
}

// answer is what a check is told of a bucket that has been brought to t.
func (b *bucket) answer(l *limit, t, cost int64, charged bool) result {
	r := result{Allowed: charged || b.fits(l, t, cost, true), Charged: charged, At: t}
	level, scale := b.level(l, t)
	if r.Remaining = (l.holds()*scale - level) / scale; level > l.holds()*scale {
		r.Remaining = 0
	}
	if !r.Allowed && cost <= l.holds() {
		if r.RetryAfter = 1; l.Algorithm != concurrency {
			r.RetryAfter = b.wait(l, t, cost, true)
		}
	}
	switch {
	case l.Algorithm == concurrency: // nobody knows when a slot becomes free
		r.hint = true
	case r.RetryAfter > 0:
		r.Window = r.RetryAfter
	case r.Remaining == 0:
		r.Window = b.wait(l, t, 1, false)
	case l.Algorithm == fixedWindow || l.Algorithm == calendarDay:
		r.Window = b.end - t
	default:
		r.Window = ceilDiv(r.Remaining*l.Window, l.Quota)
	}
	switch l.Algorithm {
	case tokenBucket:
		r.ResetAfter = ceilDiv(b.debt, l.Quota)
		if queued := b.debt - l.Burst*l.Window; charged && l.Wait > 0 && queued > 0 {
			r.Turn = ceilDiv(queued, l.Quota)
		}
	case fixedWindow, calendarDay:
		r.ResetAfter = b.end - t
	case slidingWindow:
		if b.now > 0 {
			r.ResetAfter = b.end + l.Window - t
		} else if b.before > 0 {
			r.ResetAfter = b.end - t
		}
	case slidingLog, concurrency:
		if n := len(b.log); n > 0 {
			r.ResetAfter = b.log[n-1].at + l.Window - t
		}
	}
	return r
}

// blockedAnswer turns an answer into that of a key whose block ends in left microseconds.
func (r result) blockedAnswer(l *limit, left, cost int64) result {
	wait := max(r.RetryAfter, left)
	blocked := result{Blocked: true, Window: wait, ResetAfter: max(r.ResetAfter, wait), At: r.At, hint: r.hint}
	if cost <= l.holds() {
		blocked.RetryAfter = wait
	}
	return blocked
}

// charge charges units to a bucket that has been brought to t.
func (b *bucket) charge(l *limit, t, units int64) {
	if units <= 0 {
		return
	}
	switch l.Algorithm {
	case tokenBucket:
		b.debt += units * l.Window
	case slidingLog, concurrency:
		if n := len(b.log); n > 0 && b.log[n-1].at >= t {
			b.log[n-1].units += units
		} else {
			b.log = append(b.log, entry{t, units})
		}
	default:
		b.now += units
	}
}

// chargeAnyway charges units that are already spent: a bucket owes its debt at most, or what it holds once more. It returns
// the units that it is not charged for that.
func (b *bucket) chargeAnyway(l *limit, t, units int64) (forgiven int64) {
	most, scale := l.Quota, int64(1)
	if l.Algorithm == tokenBucket {
		most, scale = l.Burst*l.Window+l.Wait*l.Quota, l.Window
	}
	if l.HasDebt {
		most += l.Debt * scale
	} else {
		most *= 2
	}
	switch l.Algorithm {
	case tokenBucket:
		added := min(units*scale, max(most-b.debt, 0))
		b.debt += added
		return units - added/scale
	case slidingLog, concurrency:
		most -= b.logged()
	default:
		most -= b.now
	}
	added := min(units, max(most, 0))
	b.charge(l, t, added)
	return units - added
}

// refund gives back units that were charged with a result, as far as time has not given them back.
func (b *bucket) refund(l *limit, t, units int64, charged *result) {
	switch l.Algorithm {
	case tokenBucket:
		own := units * l.Window
		// The bucket regains what was owed before first.
		from := charged.At + max(charged.ResetAfter-own/l.Quota, 0)
		if back := own - max(t-from, 0)*l.Quota; back > 0 {
			b.debt = max(b.debt-back, 0)
		}
	case slidingLog, concurrency:
		b.free(charged.At, units)
	case slidingWindow:
		switch at := charged.At; {
		case at >= b.start:
			b.now -= min(b.now, units)
		case at >= b.start-l.Window:
			b.before -= min(b.before, units)
		}
	default:
		if charged.At >= b.start && charged.At < b.end {
			b.now -= min(b.now, units)
		}
	}
}

// free takes units that were charged at a time out of the log.
func (b *bucket) free(at, units int64) {
	for i := range b.log {
		if b.log[i].at == at {
			b.log[i].units -= min(b.log[i].units, units)
		}
	}
	b.log = slices.DeleteFunc(b.log, func(e entry) bool { return e.units == 0 })
}

// denied counts a denial, and begins a block if it is one too many. It returns how long the block lasts.
func (p *penalty) denied(l *limit, t int64) int64 {
	if p.denials++; p.denials == 1 {
		p.counted, p.began = t+l.Within, 0
	}
	if p.denials < l.After {
		return 0
	}
	length := l.For
	for range p.blocks {
		length = min(length*l.Factor, l.Max)
	}
	*p = penalty{began: t, until: t + length, blocks: p.blocks + 1}
	return length
}
