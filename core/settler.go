package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"weak"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// maxSettling bounds how many reservations wait to be settled.
	maxSettling = 4096

	// maxSettlers bounds the goroutines that settle them, one reservation at a time each.
	// A store sends calls that come at the same time together, so many cost it little more
	// than one.
	maxSettlers = 64

	// maxKept bounds how many reservations are kept while the store can't be told. One takes
	// about a kilobyte with its keys.
	maxKept = 16384

	// Drain tries this often to settle what is kept, and gives up after drainTimeout if its
	// context has no deadline: a process must be able to end without its store.
	drainEvery   = 100 * time.Millisecond
	drainTimeout = 10 * time.Second
)

// settler tells a store in the background what ended reservations give back or charge. What
// the store certainly has not noted, since it was not asked or refused, is kept and tried
// again until it has no meaning any more. Its goroutines end when there is nothing to settle.
// It makes no batches: a store that can has a queue of its own.
// Its zero value is ready to use.
type settler struct {
	mu       sync.Mutex
	waiting  []*reservation // in order of arrival. Guarded by mu.
	retrying []*reservation // kept ones that are tried again, after those. Guarded by mu.
	kept     []*reservation // until the next try. Guarded by mu.
	planned  bool           // a timer is going to start it. Guarded by mu.
	pending  int            // reservations that are not settled, all in all. Guarded by mu.
	lost     int64          // settlements that were given up. Guarded by mu.
	workers  int            // Guarded by mu.
	idle     chan struct{}  // closed when the last worker leaves; nil before the first. Guarded by mu.
}

// add has a reservation settled. If too many wait, the caller settles it: that request gets
// slower, and nothing is lost.
func (s *settler) add(r *reservation) {
	if _, ok := r.store.(*Memory); ok {
		r.tell() // can't block
		return
	}
	s.mu.Lock()
	s.pending++
	full := len(s.waiting) >= maxSettling
	if !full {
		s.waiting = append(s.waiting, r)
		s.hire(1)
	}
	s.mu.Unlock()
	if full && r.tell() {
		s.mu.Lock()
		s.pending--
		s.mu.Unlock()
	}
}

// hire starts up to n workers. s.mu is held.
func (s *settler) hire(n int) {
	for range min(n, maxSettlers-s.workers) {
		if s.workers == 0 {
			s.idle = make(chan struct{})
		}
		s.workers++
		go s.work()
	}
}

// work settles reservations until none waits.
func (s *settler) work() {
	for r := s.take(false); r != nil; {
		r = s.take(r.tell())
	}
}

// take returns the reservation that has waited longest. If there is none it returns nil, and
// the worker that called it must end. settled says that the worker's last one is.
func (s *settler) take(settled bool) (r *reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if settled {
		s.pending--
	}
	from := &s.waiting
	if len(*from) == 0 {
		s.waiting = nil // frees the memory that it has grown to
		from = &s.retrying
	}
	if len(*from) == 0 {
		s.retrying = nil
		if s.workers--; s.workers == 0 {
			close(s.idle)
		}
		return nil
	}
	r = (*from)[0]
	(*from)[0] = nil
	*from = (*from)[1:]
	return r
}

// keep keeps a reservation to be settled later, and reports false if there is no room.
func (s *settler) keep(r *reservation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept)+len(s.retrying) >= maxKept {
		return false
	}
	s.kept = append(s.kept, r)
	if !s.planned {
		s.planned = true
		// The timer holds the settler weakly: a store that nobody uses any more is garbage,
		// and what is kept for it, too.
		held := weak.Make(s)
		time.AfterFunc(retryIn(), func() {
			if s := held.Value(); s != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.planned = false
				s.retry()
			}
		})
	}
	return true
}

// retry has what is kept settled now. s.mu is held.
func (s *settler) retry() {
	s.retrying = append(s.retrying, s.kept...)
	s.kept = nil
	s.hire(len(s.retrying))
}

// drain waits until nothing is left to settle. Its error says how much is, or was given up
// meanwhile.
func (s *settler) drain(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, drainTimeout)
		defer cancel()
	}
	s.mu.Lock()
	lost := -s.lost
	s.mu.Unlock()
	for {
		s.mu.Lock()
		s.retry()
		idle, busy := s.idle, s.workers > 0
		s.mu.Unlock()
		if !busy {
			break
		}
		select {
		case <-idle:
		case <-ctx.Done():
			s.mu.Lock()
			left := s.pending
			s.mu.Unlock()
			return fmt.Errorf("weblimit: requests that are not settled: %d: %w", left, ctx.Err())
		}
		s.mu.Lock()
		again := len(s.kept) > 0
		s.mu.Unlock()
		if again {
			sleep(ctx, drainEvery, nil)
		}
	}
	s.mu.Lock()
	lost += s.lost
	s.mu.Unlock()
	if lost > 0 {
		return fmt.Errorf("weblimit: settlements that were lost: %d", lost)
	}
	return nil
}

// tell tells the store what to give back and what to charge, until it knows of every change.
// If it can't be told, the reservation is kept for later, and tell returns false.
func (r *reservation) tell() (settled bool) {
	if r.elsewhere != nil {
		return r.tellElsewhere()
	}
	for again := true; again; {
		r.spill()
		refunds, charges, expired := r.next()
		r.giveUp(expired)
		undone := r.call(Store.Refund, &refunds)
		r.limiter.waitlist.wake(refunds.checks)
		undone = r.call(Store.Charge, &charges) || undone
		again = r.told()
		if undone {
			if r.shared.settler.keep(r) {
				return false
			}
			r.giveUp(r.abandon())
			again = r.told()
		}
	}
	return true
}

// call makes one call to the store. What the store may have done is not repeated. If it has
// not, a client has less left than it should until its window or bucket has forgotten the
// units. call reports whether something has to be told again.
func (r *reservation) call(how func(Store, context.Context, []Check, []Result) error, c *call) (again bool) {
	if len(c.checks) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limiter.timeout)
	defer cancel()
	err := how(r.store, ctx, c.checks, c.results)
	if err != nil {
		r.shared.Failed(err)
		if undone := (*store.Undone)(nil); errors.As(err, &undone) {
			r.undo(c, undone.Checks, err)
		}
	} else if r.limiter.observers == nil {
		return false
	}
	for i, limit := range c.limits {
		if units := r.toldOf(limit); units != 0 {
			told := change{limit: limit, check: &c.checks[i], units: units, err: err}
			if units > 0 && err == nil {
				told.forgiven = min(c.results[i].Forgiven, units)
			}
			r.report(&told)
		} else {
			again = true
		}
	}
	return again
}

// gaveUp counts a settlement that is lost.
func (s *settler) gaveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost++
}

// giveUp reports changes that the store is not told.
func (r *reservation) giveUp(lost []change) {
	for i := range lost {
		r.report(&lost[i])
	}
}

// report tells observers of a change, and reports one that is lost, or may be.
func (r *reservation) report(c *change) {
	if c.err != nil {
		r.shared.settler.gaveUp()
		r.shared.Lost(1, c.err)
	}
	if r.limiter.observers == nil {
		return
	}
	r.mu.Lock()
	denied := r.denied
	r.mu.Unlock()
	if !denied {
		r.limiter.settled(Settlement{Rule: c.check.Rule, Shadow: c.limit.shadow, Units: c.units, Forgiven: c.forgiven, Err: c.err, check: c.check})
	}
}

// Drain waits until the store, and that of Config.Fallback, know of everything that requests
// have settled so far, or until ctx ends, at most ten seconds if it has no deadline. Its error
// says how many requests are not settled then, or how many settlements were lost while it
// waited. Call it at shutdown, after the server has stopped: what is not settled by the end of
// the process stays charged.
func (l *Limiter) Drain(ctx context.Context) error {
	l = l.now()
	l.waitlist.expireAll()
	if err := l.shared.settler.drain(ctx); err != nil {
		return err
	}
	if f := l.fallback; f != nil && f.shared != nil {
		return f.shared.settler.drain(ctx)
	}
	return nil
}
