package store

// rollWindow begins the window that now is in, unless the stored one still
// runs. A stored window that lies ahead of a clock set back is kept to its end,
// so that the step grants no second quota.
func (r *Rule) rollWindow(b *Bucket, now, offset int64) {
	if b.Expires == 0 {
		b.X = 0
		b.Expires = windowStart(now, offset, r.scale.Unit) + r.scale.Unit
	}
}

// windowStart returns the start of the window of the given length that now is
// in, when windows are aligned to the epoch plus offset. All in one unit.
func windowStart(now, offset, length int64) int64 {
	into := (now - offset) % length
	if into < 0 {
		into += length
	}
	return now - into
}
