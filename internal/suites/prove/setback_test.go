package prove

import "slices"

// What docs/run/guarantees.md says of clocks that are set back, beyond what follows from the algorithms.

// broughtBack returns the bucket as the first request at t leaves it whose clock was set back: what lies
// further ahead than the table says begins now. Penalties are looked at by requests with a cost.
func (b *bucket) broughtBack(l *limit, t int64, costs bool) (near *bucket, brought bool) {
	near = b.clone()
	switch l.Algorithm {
	case tokenBucket:
		if b.debt == 0 {
			break
		}
		// Two windows, or the time in which it refills twice if that is longer, and that of a debt that was chosen.
		full := l.Burst*l.Window + l.Wait*l.Quota
		owed := b.debt + (b.since-t)*l.Quota
		if owed > 2*max(full+l.Quota, l.Window*l.Quota)+l.Quota+l.Debt*l.Window {
			near.debt, near.since, brought = full, t, true
		}
	case fixedWindow, slidingWindow:
		if b.now+b.before > 0 && b.start > t {
			near.start, near.end, brought = t, t+l.Window, true
		}
	case calendarDay:
		start, end := dayOf(l.Zone, t)
		if _, next := dayOf(l.Zone, end); b.now > 0 && b.end > next {
			near.start, near.end, brought = start, end, true
		}
	case slidingLog, concurrency:
		if i := slices.IndexFunc(b.log, func(e entry) bool { return e.at > t+l.Window }); i >= 0 {
			units := near.logged()
			near.log = near.log[:i]
			near.charge(l, t, units-near.logged())
			brought = true
		}
	}
	if costs && l.After > 0 {
		if p := b.penalty.broughtBack(l, t); p != b.penalty {
			near.penalty, brought = p, true
		}
	}
	return near, brought
}

// broughtBack returns the penalty as it counts at t: a block lasts as long as it was to last, and denials
// count for as long as they do.
func (p penalty) broughtBack(l *limit, t int64) penalty {
	if p.denials > 0 {
		p.until, p.counted = min(p.until, t), min(p.counted, t+l.Within)
	} else if p.began > t {
		p.began, p.until = t, t+p.until-p.began
	}
	return p
}

// setClock returns the states in which a client can be when the clock is set. If it is set back, what was
// over may have been dropped or not, and counts again then.
func (m *spec) setClock(s *state, o *operation) []any {
	all := []*state{s.with(o.Micros)}
	if o.Micros >= s.last {
		return []any{all[0]}
	}
	for i, b := range s.buckets {
		l := &m.limits[i%len(m.limits)]
		for _, dropped := range b.dropped(l, o.From) {
			for _, s := range all {
				next := s.with(o.Micros)
				next.buckets[i] = dropped
				all = append(all, next)
			}
		}
	}
	states := make([]any, len(all))
	for i := range all {
		states[i] = all[i]
	}
	return states
}

// dropped returns what can be left of a bucket of which a part is over at t, other than all.
func (b *bucket) dropped(l *limit, t int64) (all []*bucket) {
	if b == fresh {
		return nil
	}
	add := func(x *bucket) {
		if !x.equal(b) && !slices.ContainsFunc(all, x.equal) {
			all = append(all, x)
		}
	}
	later := b.at(l, t)
	later.debt, later.since = b.debt, b.since
	if l.Algorithm == tokenBucket && b.at(l, t).debt == 0 {
		later.debt, later.since = 0, 0
	}
	if l.Algorithm != slidingLog && l.Algorithm != concurrency && later.now+later.before == 0 {
		later.start, later.end = 0, 0
	}
	counts := *b
	counts.penalty = later.penalty
	if p := &counts.penalty; p.until <= t && p.blocks == 0 {
		p.began, p.until = 0, 0
	}
	add(&counts)
	bucketOnly := *later
	bucketOnly.penalty = b.penalty
	add(&bucketOnly)
	both := *later
	both.penalty = counts.penalty
	add(&both)
	return all
}
