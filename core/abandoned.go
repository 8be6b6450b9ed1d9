package core

import (
	"context"
	"slices"
	"time"
)

// vacancy is the place of a request whose client has gone while it waited. It stays
// charged for a moment, for the next request that asks for the same. Else a client
// that opens and resets one request after the other would cost the store two calls
// each; and whoever shares its key has a place at once, and with its turn.
type vacancy struct {
	spot
	call  uint64
	held  *reservation
	said  []Result // by the store
	at    time.Time
	turn  time.Time
	timer *time.Timer // ends it
}

// vacantFor is how long a place is kept for another request.
const vacantFor = time.Second

// vacate keeps the place of a request that was charged and has gone. It reports
// false if nobody else could use it, or if it costs nothing to give it back.
func (l *line) vacate(p spot, c *call, held *reservation, at, turn time.Time) bool {
	if held == nil || !held.transferable(c) {
		return false
	}
	it := &vacancy{spot: p, call: l.call(c), held: held, said: slices.Clone(c.results), at: at, turn: turn}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left.Add(1)
	vacant := l.vacant[it.call]
	i, _ := slices.BinarySearchFunc(vacant, it.turn, func(a *vacancy, turn time.Time) int { return a.turn.Compare(turn) })
	l.vacant[it.call] = slices.Insert(vacant, i, it)
	it.timer = time.AfterFunc(min(vacantFor, time.Until(turn)), func() { l.expire(it) })
	return true
}

// takeOver returns the next place that was left by a request for the same, or nil.
func (l *line) takeOver(c *call) *vacancy {
	if l.left.Load() == 0 {
		return nil
	}
	call := l.call(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range l.vacant[call] {
		if it.held.charged(c) {
			l.remove(it)
			it.timer.Stop()
			return it
		}
	}
	return nil
}

// decide decides a request that takes over the place: by what the store said, and
// with less time to wait.
func (it *vacancy) decide(ctx context.Context, c *call, d *Decision, now time.Time) {
	passed := now.Sub(it.at).Truncate(time.Microsecond)
	for i := range it.said {
		c.results[i] = it.said[i]
		c.results[i].ResetAfter = max(it.said[i].ResetAfter-passed, 0)
	}
	d.sumUp(ctx, c)
	d.held = it.held
	d.held.outer, _ = ctx.Value(reservationKey{}).(*reservation)
}

// expire gives back what nobody takes over.
func (l *line) expire(it *vacancy) {
	l.mu.Lock()
	kept := l.remove(it)
	l.mu.Unlock()
	if kept {
		l.exit(it.spot)
		it.held.cancel()
	}
}

// expireAll does so for all at once.
func (l *line) expireAll() {
	l.mu.Lock()
	var all []*vacancy
	for _, vacant := range l.vacant {
		all = append(all, vacant...)
	}
	l.mu.Unlock()
	for _, it := range all {
		it.timer.Stop()
		l.expire(it)
	}
}

// remove takes a place out of the vacant ones, and reports whether it was one.
// l.mu is held.
func (l *line) remove(it *vacancy) bool {
	vacant := l.vacant[it.call]
	i := slices.Index(vacant, it)
	if i < 0 {
		return false
	}
	l.left.Add(-1)
	if vacant = slices.Delete(vacant, i, i+1); len(vacant) == 0 {
		delete(l.vacant, it.call)
	} else {
		l.vacant[it.call] = vacant
	}
	return true
}

// call hashes the keys and limits that a request asks for.
func (l *line) call(c *call) (sum uint64) {
	for i := range c.checks {
		sum = sum*31 + l.key(&c.checks[i])
	}
	return sum
}

// transferable reports whether what a call charged can become another request's: all
// of it was, by a store that is not in this process. Slots and operations belong to
// the request that took them.
func (r *reservation) transferable(c *call) bool {
	if _, ok := r.store.(*Memory); ok || r.instead != r.limiter.instead || !r.charged(c) {
		return false
	}
	for i := range r.charges {
		if r.charges[i].slots() || r.charges[i].check.Once != nil {
			return false
		}
	}
	return true
}

// charged reports whether r was charged exactly what a call asks for.
func (r *reservation) charged(c *call) bool {
	return slices.EqualFunc(r.charges, c.checks, func(a charge, b Check) bool {
		return a.check.Rule == b.Rule && a.check.Cost == b.Cost && string(a.check.Key) == string(b.Key) && b.Once == nil
	})
}
