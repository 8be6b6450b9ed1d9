package core

import (
	"context"
	"slices"
	"time"
)

// abandonedPlace is the place of a request whose client hung up while it waited. Its
// charge is kept for a moment, for the next request with the same keys and costs.
// Otherwise a client that opens and resets one request after another would cost the
// store two calls each. The next request is usually one of the same client, and gets
// the place and its turn at once.
type abandonedPlace struct {
	place
	callHash    uint64
	reservation *reservation
	results     []Result // of the store
	decidedAt   time.Time
	turn        time.Time
	timer       *time.Timer // ends it
}

// keepAbandoned is how long an abandoned place is kept for another request.
const keepAbandoned = time.Second

// abandon keeps the place of a request that was charged and whose client is gone. It
// reports false if no other request could use the charge, or if giving it back costs
// nothing.
func (w *waitlist) abandon(p place, c *call, held *reservation, decidedAt, turn time.Time) bool {
	if held == nil || !held.transferable(c) {
		return false
	}
	a := &abandonedPlace{place: p, callHash: w.callHash(c), reservation: held, results: slices.Clone(c.results), decidedAt: decidedAt, turn: turn}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.numAbandoned.Add(1)
	same := w.abandoned[a.callHash]
	i, _ := slices.BinarySearchFunc(same, a.turn, func(other *abandonedPlace, turn time.Time) int { return other.turn.Compare(turn) })
	w.abandoned[a.callHash] = slices.Insert(same, i, a)
	a.timer = time.AfterFunc(min(keepAbandoned, time.Until(turn)), func() { w.expire(a) })
	return true
}

// takeOver returns the abandoned place with the next turn that was charged what the
// call asks for, or nil.
func (w *waitlist) takeOver(c *call) *abandonedPlace {
	if w.numAbandoned.Load() == 0 {
		return nil
	}
	hash := w.callHash(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.abandoned[hash] {
		if a.reservation.charged(c) {
			w.remove(a)
			a.timer.Stop()
			return a
		}
	}
	return nil
}

// decide decides a request that takes over the place: by the results of the store,
// with the time that has passed taken off.
func (a *abandonedPlace) decide(ctx context.Context, c *call, d *Decision, now time.Time) {
	passed := now.Sub(a.decidedAt).Truncate(time.Microsecond)
	for i := range a.results {
		c.results[i] = a.results[i]
		c.results[i].ResetAfter = max(a.results[i].ResetAfter-passed, 0)
		c.results[i].Turn = max(a.results[i].Turn-passed, 0)
	}
	d.sumUp(ctx, c)
	d.held = a.reservation
	d.held.outer = reservationIn(ctx)
}

// expire gives back a place that no request has taken over, and its charge.
func (w *waitlist) expire(a *abandonedPlace) {
	w.mu.Lock()
	kept := w.remove(a)
	w.mu.Unlock()
	if kept {
		w.leave(a.place)
		a.reservation.cancel()
	}
}

// expireAll expires all abandoned places at once.
func (w *waitlist) expireAll() {
	w.mu.Lock()
	var all []*abandonedPlace
	for _, same := range w.abandoned {
		all = append(all, same...)
	}
	w.mu.Unlock()
	for _, a := range all {
		a.timer.Stop()
		w.expire(a)
	}
}

// remove removes an abandoned place, and reports whether it was still there. w.mu is
// held.
func (w *waitlist) remove(a *abandonedPlace) bool {
	same := w.abandoned[a.callHash]
	i := slices.Index(same, a)
	if i < 0 {
		return false
	}
	w.numAbandoned.Add(-1)
	if same = slices.Delete(same, i, i+1); len(same) == 0 {
		delete(w.abandoned, a.callHash)
	} else {
		w.abandoned[a.callHash] = same
	}
	return true
}

// callHash hashes the keys and limits of a call.
func (w *waitlist) callHash(c *call) (sum uint64) {
	for i := range c.checks {
		sum = sum*31 + w.keyHash(&c.checks[i])
	}
	return sum
}

// transferable reports whether the charges of a call can become another request's: a
// store outside this process has made all of them, and none is for slots or an
// operation, which belong to the request that took them.
func (r *reservation) transferable(c *call) bool {
	if _, ok := r.store.(*Memory); ok || r.shared != r.limiter.shared || !r.charged(c) {
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
