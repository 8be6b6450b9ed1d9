package counting

import "github.com/weblimit/weblimit/core/store"

type fixedWindow struct{}

func (fixedWindow) used(_ Form, b *Bucket, _ int64) (units, rest, unit int64) { return b.X, 0, 1 }

// roll starts the window of now unless the stored window is still running: one of the clock, or one that begins
// with first use, for which that is what is read or charged now. If the clock
// was set back behind the stored window, that window counts for its whole length from now on,
// so that the step grants no second quota.
func (fixedWindow) roll(r *store.Rule, b *Bucket, now, offset int64) {
	if b.X == 0 { // even if a store keeps a bucket in which nothing is used
		if b.Expires = now + r.Integers.Unit; !r.FromUse {
			b.Expires = windowStart(now, offset, r.Integers.Unit) + r.Integers.Unit
		}
	}
}

func (fixedWindow) bringBack(r *store.Rule, b *Bucket, now int64) bool {
	b.Expires = now + r.Integers.Unit
	return true
}

func (fixedWindow) read(_ *store.Rule, b *Bucket, now, _ int64, n *[4]int64) {
	n[0], n[1] = b.X, b.Expires-now
}

func (fixedWindow) charge(_ *store.Rule, b *Bucket, _, cost int64) { b.X += cost }

func (fixedWindow) refund(r *store.Rule, b *Bucket, _, cost, at int64) {
	if at >= b.Expires-r.Integers.Unit {
		b.X -= min(b.X, cost)
	}
}

func (fixedWindow) remaining(r *store.Rule, n *[4]int64) int64 { return r.Burst - n[0] }

func (fixedWindow) wait(r *store.Rule, cost int64, n *[4]int64, _ bool) int64 {
	if cost <= r.Burst-n[0] {
		return 0
	}
	return n[1]
}

func (fixedWindow) emptyAfter(_ *store.Rule, n *[4]int64) int64 { return n[1] }

// windowStart returns the start of the window of now. Windows are aligned to the epoch plus
// offset. All arguments have the same unit.
func windowStart(now, offset, length int64) int64 {
	into := (now - offset) % length
	if into < 0 {
		into += length
	}
	return now - into
}
