package store

import "github.com/weblimit/weblimit/internal/integer"

// The sliding window counts in two aligned windows and takes the earlier one
// for evenly spread: units used = current + previous × (the part of it that the
// last window's length still covers). It is the estimate that Cloudflare
// published in "How we built rate limiting capable of scaling to millions of
// domains". The comparison is made on integers: previous × ticks left against
// room × window.

// rollEstimate moves a live bucket on to now, or begins the window now is in.
func (f Form) rollEstimate(b *Bucket, now, offset int64) {
	if b.Expires != 0 && now >= b.Expires-f.Unit*f.Tick { // the current window is over, the one after it is not
		b.X, b.Y = 0, b.X
		b.Expires += f.Unit * f.Tick
		if b.Y == 0 {
			b.Expires = 0
		}
	}
	if b.Expires == 0 {
		start := windowStart(integer.InTicks(now, f.Tick), integer.InTicks(offset, f.Tick), f.Unit)
		b.Expires = (start + 2*f.Unit) * f.Tick
	}
}

// elapsed returns the ticks since the current window began: 0 if a clock that
// was set back has not reached it yet.
func (f Form) elapsed(b *Bucket, now int64) int64 {
	return max(integer.InTicks(now, f.Tick)-(integer.InTicks(b.Expires, f.Tick)-2*f.Unit), 0)
}

func (r *Rule) chargeEstimate(b *Bucket, _, cost int64) { b.X += cost }

func (r *Rule) estimateRemaining(n *[4]int64) int64 {
	w := r.scale.Unit
	return r.scale.Capacity - n[0] - integer.CeilDiv(n[1]*(w-n[2]), w)
}

func (r *Rule) estimateWait(cost int64, n *[4]int64) int64 {
	current, previous, elapsed, w := n[0], n[1], n[2], r.scale.Unit
	if room := r.scale.Capacity - cost - current; room >= 0 {
		// It fits in this window, once the previous one weighs no more than room.
		if previous*(w-elapsed) <= room*w {
			return 0
		}
		return (w - room*w/previous - elapsed) * r.scale.Tick
	}
	// Not before the next window, in which current is the previous one.
	room := r.scale.Capacity - cost
	return (w - elapsed + w - room*w/current) * r.scale.Tick
}

func (r *Rule) estimateEmpty(n *[4]int64) int64 {
	switch {
	case n[0] > 0:
		return (2*r.scale.Unit - n[2]) * r.scale.Tick
	case n[1] > 0:
		return (r.scale.Unit - n[2]) * r.scale.Tick
	}
	return 0
}

func (r *Rule) refundEstimate(b *Bucket, cost, at int64) {
	start := b.Expires/r.scale.Tick - 2*r.scale.Unit
	switch ticks := at / r.scale.Tick; {
	case ticks >= start:
		b.X -= min(b.X, cost)
	case ticks >= start-r.scale.Unit:
		b.Y -= min(b.Y, cost)
	}
}
