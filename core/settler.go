package core

import (
	"context"
	"sync"
)

const (
	// maxSettling bounds how many reservations wait to be settled.
	maxSettling = 4096

	// maxSettlers bounds the goroutines that settle them, one reservation at a time each.
	// A store sends calls that come at the same time together, so many cost it little more
	// than one.
	maxSettlers = 64
)

// settler tells a store in the background what ended reservations give back or charge. Its
// goroutines end when there is nothing to settle. Its zero value is ready to use.
type settler struct {
	mu      sync.Mutex
	waiting []*reservation // in order of arrival. Guarded by mu.
	workers int            // Guarded by mu.
	idle    chan struct{}  // closed when the last worker leaves; nil before the first. Guarded by mu.
}

// add has a reservation settled. If too many wait, the caller settles it: that request gets
// slower, and nothing is lost.
func (s *settler) add(r *reservation) {
	if _, ok := r.store.(*Memory); ok {
		r.tell() // can't block
		return
	}
	s.mu.Lock()
	full := len(s.waiting) >= maxSettling
	if !full {
		s.waiting = append(s.waiting, r)
		if s.workers == 0 {
			s.idle = make(chan struct{})
		}
		if s.workers < maxSettlers {
			s.workers++
			go s.work()
		}
	}
	s.mu.Unlock()
	if full {
		r.tell()
	}
}

// work settles reservations until none waits.
func (s *settler) work() {
	for r := s.take(); r != nil; r = s.take() {
		r.tell()
	}
}

// take returns the reservation that has waited longest. If there is none it returns nil, and
// the worker that called it must end.
func (s *settler) take() *reservation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.waiting = nil // frees the memory that it has grown to
		if s.workers--; s.workers == 0 {
			close(s.idle)
		}
		return nil
	}
	r := s.waiting[0]
	s.waiting[0] = nil
	s.waiting = s.waiting[1:]
	return r
}

// drain waits until no reservation waits and no worker runs.
func (s *settler) drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		idle, busy := s.idle, s.workers > 0
		s.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell tells the store what to give back and what to charge, until it knows of every change.
func (r *reservation) tell() {
	for again := true; again; again = r.told() {
		refunds, charges := r.next()
		r.call(Store.Refund, -1, &refunds)
		r.limiter.waitlist.wake(refunds.checks)
		r.call(Store.Charge, 1, &charges)
	}
}

// call makes one call to the store. A call that fails is not repeated, since the store may
// have done it. If it has not, a client has less left than it should until its window or
// bucket has forgotten the units.
func (r *reservation) call(how func(Store, context.Context, []Check, []Result) error, sign int64, c *call) {
	if len(c.checks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limiter.timeout)
	defer cancel()
	err := how(r.store, ctx, c.checks, c.results)
	if err != nil {
		r.shared.Failed(err)
	}
	r.observe(c, sign, err)
}

// observe tells observers of what a call to the store has changed.
func (r *reservation) observe(c *call, sign int64, err error) {
	if r.limiter.observers == nil {
		return
	}
	r.mu.Lock()
	denied := r.denied
	r.mu.Unlock()
	if denied {
		return
	}
	for i, limit := range c.limits {
		check := &c.checks[i]
		r.limiter.settled(Settlement{Rule: check.Rule, Shadow: limit.shadow, Units: sign * check.Cost, Err: err, check: check})
	}
}

// Drain waits until the store, and that of Config.Fallback, know of everything that requests
// have settled so far, or until ctx ends, and then returns the error of ctx. Call it at
// shutdown, after the server has stopped: what is not settled by the end of the process stays
// charged.
func (l *Limiter) Drain(ctx context.Context) error {
	l.waitlist.expireAll()
	if err := l.shared.settler.drain(ctx); err != nil {
		return err
	}
	if f := l.fallback; f != nil && f.shared != nil {
		return f.shared.settler.drain(ctx)
	}
	return nil
}
