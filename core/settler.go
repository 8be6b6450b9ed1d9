package core

import (
	"bytes"
	"context"
	"sync"
)

const (
	// maxSettling bounds what waits for being settled.
	maxSettling = 4096

	// maxSettlers bounds the goroutines that settle, each with a call at a time.
	maxSettlers = 4

	// settleAtOnce is how much they settle in one call.
	settleAtOnce = 64
)

// settlement is a charge of which the store is to be told a difference.
type settlement struct {
	*reservation
	charge int
}

// settler tells a store of reservations that have ended. It works in the
// background, with goroutines that live as long as there is work, and takes
// together what has come meanwhile. Slots go before all else: a request that wants
// one is denied for as long as it waits to be given back. Its zero value is ready to use.
type settler struct {
	mu      sync.Mutex
	slots   []settlement  // of Concurrent limits: they go first. Guarded by mu.
	waiting []settlement  // all others. Guarded by mu.
	workers int           // Guarded by mu.
	idle    chan struct{} // closed when the last worker leaves; nil before the first. Guarded by mu.
}

// add has a settlement made. With too many waiting the caller makes it: slower for
// that request, and nothing is lost.
func (s *settler) add(one settlement) {
	if _, ok := one.store.(*Memory); ok {
		settle([]settlement{one}) // it can't block
		return
	}
	s.mu.Lock()
	n := len(s.slots) + len(s.waiting)
	full := n >= maxSettling
	if !full {
		to := &s.waiting
		if one.charges[one.charge].slots {
			to = &s.slots
		}
		*to = append(*to, one)
		if s.workers == 0 {
			s.idle = make(chan struct{})
		}
		if s.workers < maxSettlers && n >= s.workers*settleAtOnce {
			s.workers++
			go s.work()
		}
	}
	s.mu.Unlock()
	if full {
		settle([]settlement{one})
	}
}

// work settles until nothing waits.
func (s *settler) work() {
	batch := make([]settlement, 0, settleAtOnce)
	for {
		s.mu.Lock()
		batch = moveInto(batch[:0], &s.slots)
		batch = moveInto(batch, &s.waiting)
		if len(batch) == 0 {
			s.workers--
			if s.workers == 0 {
				close(s.idle)
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		settle(batch)
		clear(batch)
	}
}

// moveInto fills a batch with what has waited longest.
func moveInto(batch []settlement, from *[]settlement) []settlement {
	n := min(len(*from), settleAtOnce-len(batch))
	batch = append(batch, (*from)[:n]...)
	rest := copy(*from, (*from)[n:])
	clear((*from)[rest:])
	*from = (*from)[:rest]
	return batch
}

// drain waits until nothing is left to settle.
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

// settle tells the stores of settlements, and of what else those come to while it
// does.
func settle(all []settlement) {
	for len(all) > 0 {
		var refunds, charges call
		rest := all[:0]
		told := make([]settlement, 0, len(all))
		for _, s := range all {
			at := s.charges[s.charge].check
			if s.store != all[0].store || refunds.names(&at) || charges.names(&at) {
				rest = append(rest, s) // a call names a bucket once
				continue
			}
			check, result, refund := s.next(s.charge)
			to := &charges
			if refund {
				to = &refunds
			}
			to.checks, to.results = append(to.checks, check), append(to.results, result)
			told = append(told, s)
		}
		first := told[0]
		first.tell(Store.Refund, &refunds)
		first.tell(Store.Charge, &charges)
		for _, s := range told {
			if s.told(s.charge) {
				rest = append(rest, s)
			}
		}
		all = rest
	}
}

// tell makes one call to the store. What it does not answer is lost, since it may
// have been done: then a client has less left than it should, until the window or
// the bucket has forgotten it.
func (s settlement) tell(how func(Store, context.Context, []Check, []Result) error, c *call) {
	if len(c.checks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.limiter.timeout)
	defer cancel()
	if err := how(s.store, ctx, c.checks, c.results); err != nil {
		s.instead.failed(err)
	}
}

// names reports whether the call has a check of the same bucket.
func (c *call) names(check *Check) bool {
	for i := range c.checks {
		if c.checks[i].Rule.id == check.Rule.id && bytes.Equal(c.checks[i].Key, check.Key) {
			return true
		}
	}
	return false
}

// Drain waits until the store has been told of all that requests have settled so
// far, or for the end of ctx, whose error it then returns. Call it at shutdown,
// after the server has: what a process takes with it stays charged.
func (l *Limiter) Drain(ctx context.Context) error {
	return l.instead.settler.drain(ctx)
}
