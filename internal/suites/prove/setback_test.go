package prove

import (
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

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
// over may have been dropped or not, and counts again then. Some may have been over only after the client's
// last operation, and the clock may be set back to no earlier time than that.
func (m *spec) setClock(s *state, o *operation) []any {
	all := []*state{s.with(o.Micros)}
	if o.Micros >= o.From {
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

// TestAClockIsSetBackToAfterTheLastOperation has a bucket fill after the last operation, and the clock set back to between
// the two. A server that dropped the bucket answers that it is full, and one that did not answers what it owes.
func TestAClockIsSetBackToAfterTheLastOperation(t *testing.T) {
	m := &spec{limits: []limit{{Name: "l0", Algorithm: tokenBucket, Quota: 10, Window: 20_000, Burst: 20}}, keys: 1}
	takeAt := func(at, owes int64) *operation {
		left := 20 - ceilDiv(owes, 2000)
		return &operation{
			Kind: take, Checks: []check{{Cost: 1}}, Ended: true, Call: at * 1000, Return: at*1000 + 1,
			Results: []result{{Allowed: true, Charged: true, Remaining: left, Window: left * 2000, ResetAfter: owes, At: at}},
		}
	}
	back := &operation{Kind: clockTo, Micros: 1_000_500, From: 1_050_000, Ended: true, Call: 1_000_500_000, Return: 1_000_500_001}
	for name, c := range map[string]struct {
		owes     int64
		possible bool
	}{
		"dropped": {2000, true},
		"kept":    {3000, true},
		"neither": {2500, false},
	} {
		part := []*operation{takeAt(1_000_000, 2000), back, takeAt(1_001_000, c.owes)}
		if got := porcupine.CheckOperations(m.model(), porcupineOf(part)); got != c.possible {
			t.Errorf("%s: that the second request leaves a debt of %d µs is possible: %v, want %v", name, c.owes, got, c.possible)
		}
	}
}
