package counting

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// The sliding window counts units in two aligned windows, and assumes that those of the
// previous one were spread evenly:
//
//	used = current + previous × (part of the previous window within the last window's length)
//
// Cloudflare published it in "How we built rate limiting capable of scaling to millions of
// domains". The comparison is made on integers: previous × ticks left with room × window.

type slidingWindow struct{}

func (slidingWindow) used(f Form, b *Bucket, now int64) (units, rest, unit int64) {
	rolled := *b
	f.rollWindows(&rolled, now, 0)
	previous := rolled.Y * (f.Unit - f.elapsed(&rolled, now))
	return rolled.X + previous/f.Unit, previous % f.Unit, f.Unit
}

func (slidingWindow) roll(_ *store.Rule, b *Bucket, now, offset int64) {
	b.Form.rollWindows(b, now, offset)
}

// bringBack has the current window begin now.
func (slidingWindow) bringBack(r *store.Rule, b *Bucket, now int64) bool {
	b.Expires = (integer.InTicks(now, r.Integers.Tick) + 2*r.Integers.Unit) * r.Integers.Tick
	return true
}

func (slidingWindow) read(_ *store.Rule, b *Bucket, now, _ int64, n *[4]int64) {
	n[0], n[1], n[2] = b.X, b.Y, b.Form.elapsed(b, now)
}

// rollWindows moves a bucket that has not expired on to now. In an unused bucket it starts
// the window of now.
func (f Form) rollWindows(b *Bucket, now, offset int64) {
	if b.Expires != 0 && now >= b.Expires-f.Unit*f.Tick { // the current window is over, the next is not
		b.X, b.Y = 0, b.X
		b.Expires += f.Unit * f.Tick
		if b.Y == 0 {
			b.Expires = 0
		}
	}
	if b.X == 0 && b.Y == 0 { // even if a store keeps a bucket in which nothing is used
		start := windowStart(integer.InTicks(now, f.Tick), integer.InTicks(offset, f.Tick), f.Unit)
		b.Expires = (start + 2*f.Unit) * f.Tick
	}
}

// elapsed returns the ticks since the current window began: 0 if the clock was set back
// behind it.
func (f Form) elapsed(b *Bucket, now int64) int64 {
	return max(integer.InTicks(now, f.Tick)-(integer.InTicks(b.Expires, f.Tick)-2*f.Unit), 0)
}

func (slidingWindow) charge(_ *store.Rule, b *Bucket, _, cost int64) { b.X += cost }

func (slidingWindow) remaining(r *store.Rule, n *[4]int64) int64 {
	w := r.Integers.Unit
	return r.Integers.Capacity - n[0] - integer.CeilDiv(n[1]*(w-n[2]), w)
}

func (slidingWindow) wait(r *store.Rule, cost int64, n *[4]int64, _ bool) int64 {
	current, previous, elapsed, w := n[0], n[1], n[2], r.Integers.Unit
	if room := r.Integers.Capacity - cost - current; room >= 0 {
		// It fits in this window, once the previous one weighs no more than room.
		if previous*(w-elapsed) <= room*w {
			return 0
		}
		return (w - room*w/previous - elapsed) * r.Integers.Tick
	}
	// Not before the next window, in which current is the previous one.
	room := r.Integers.Capacity - cost
	return (w - elapsed + w - room*w/current) * r.Integers.Tick
}

func (slidingWindow) emptyAfter(r *store.Rule, n *[4]int64) int64 {
	switch {
	case n[0] > 0:
		return (2*r.Integers.Unit - n[2]) * r.Integers.Tick
	case n[1] > 0:
		return (r.Integers.Unit - n[2]) * r.Integers.Tick
	}
	return 0
}

func (slidingWindow) refund(r *store.Rule, b *Bucket, _, cost, at int64) {
	start := b.Expires/r.Integers.Tick - 2*r.Integers.Unit
	switch ticks := at / r.Integers.Tick; {
	case ticks >= start:
		b.X -= min(b.X, cost)
	case ticks >= start-r.Integers.Unit:
		b.Y -= min(b.Y, cost)
	}
}
