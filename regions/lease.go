package regions

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// lease is units that are asked of home.
type lease struct {
	done    chan struct{} // closed when there is an answer, or none comes
	granted bool          // set before done is closed
	counts  *counts       // of its limit
}

// leaseFor returns the lease that is on its way, or begins one for a request of a cost. It returns nil if home has
// nothing, does not answer, or is asked too much already. k.mu is held.
func (s *Store) leaseFor(p *plan, name []byte, k *key, cost int64) *lease {
	now := s.now()
	switch {
	case k.lease != nil:
		return k.lease
	case now < k.emptyTil, now+s.trip.Load() >= k.until, cost > p.pool.Burst, s.isAway():
		return nil
	}
	select {
	case s.leasing <- struct{}{}:
	default:
		p.counts.crowded.Add(1)
		return nil
	}
	units, all := s.sizeOf(p, k, cost, now)
	l := &lease{done: make(chan struct{}), counts: p.counts}
	k.lease, k.size, k.leasedAt, k.asked = l, units, now, 0
	name = append([]byte(nil), name...)
	ends := k.ends
	go func() {
		defer func() { <-s.leasing }()
		s.fetch(p, name, k, ends, units, cost, all, l)
	}()
	return l
}

// leaseAhead begins a lease for a request that was charged to a floor of which little is left, so that the next ones need
// not wait for it. Keys that did not need more than their floor in the window before cost no message. A floor that refills
// all the time says little of what comes: of the keys that need more, it is nearly always empty.
func (s *Store) leaseAhead(p *part, c *store.Check, r *store.Result) {
	if p.from != fromFloor || p.plan.flows() || !r.Charged || r.Remaining > p.plan.floor.Burst/aheadShare {
		return
	}
	k := s.keys.get(p.plan.id, c.Key)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.looking, k.spend != nil && s.now() < k.until, k.ends != 0 && k.inPeriod == 0:
		return
	case k.ends != 0 && s.now() < k.until:
		s.leaseFor(p.plan, c.Key, k, 1)
		return
	}
	plan := p.plan // of the call, which is used again
	s.lookLater(plan, c.Key, k, r.At+r.ResetAfter.Microseconds(), func(name []byte) {
		if k.spend == nil {
			s.leaseFor(plan, name, k, 1)
		}
	})
}

// lookLater looks at the share of a key in the background, and then calls then, which holds k.mu, if the region's store has
// answered. ends is when the period ends, or 0 if that is to be asked, too. k.mu is held.
func (s *Store) lookLater(p *plan, name []byte, k *key, ends int64, then func(name []byte)) {
	select {
	case s.leasing <- struct{}{}:
	default:
		return
	}
	k.looking, k.plan = true, p
	name = append([]byte(nil), name...)
	go func() {
		defer func() { <-s.leasing }()
		ctx, cancel := context.WithTimeout(context.Background(), s.config.HomeTimeout)
		defer cancel()
		err := s.lookUp(ctx, p, name, k, ends)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.looking = false
		if err == nil {
			then(name)
		}
	}()
}

// fetch has a lease brought, and notes what came of it.
func (s *Store) fetch(p *plan, name []byte, k *key, ends, units, cost int64, all bool, l *lease) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.HomeTimeout)
	defer cancel()
	b := s.bring(ctx, p, name, k, ends, units, cost)
	if b.granted {
		p.counts.leased.Add(b.units)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(l.done)
	if k.lease = nil; k.ends == ends { // otherwise what was leased is of a period that is over
		l.granted = b.granted
		s.note(p, k, &b, cost, all)
	}
}

// note notes what came of a lease, and until when home is not asked again. k.mu is held.
func (s *Store) note(p *plan, k *key, b *brought, cost int64, all bool) {
	now := s.now()
	switch {
	case b.granted:
		k.pool, k.poolAt, k.knowsOf, k.size, k.fullTil = b.result.Remaining, now, true, b.units, 0
		k.setShare(p, max(b.share, k.share)) // answers can come in another order
		s.watch()
		if span := s.horizonOf(p, k); !all && b.result.Remaining < k.refill(p, span) {
			k.emptyTil = now + span // until some have come together again
		}
	case b.err != nil && b.units > 0: // the region's own store did not answer
		k.emptyTil = now + int64(afterRefusal)
	case b.err != nil:
		p.counts.failed.Add(1)
		s.lose(b.err)
	case b.units > 0: // they went back: home is in another window, or does not know what was leased
		k.emptyTil = now + int64(afterRefusal)
	default:
		k.pool, k.poolAt, k.knowsOf = b.result.Remaining, now, true
		wait := longestEmpty
		if k.fullTil = 0; b.result.RetryAfter > 0 {
			if b.result.Blocked || b.result.Remaining < cost { // and not only less than a lease
				k.fullTil = now + int64(b.result.RetryAfter)
			}
			wait = min(wait, b.result.RetryAfter)
		}
		k.emptyTil = now + max(int64(wait), 2*s.trip.Load())
		if p.flows() {
			k.emptyTil = max(k.emptyTil, now+s.horizonOf(p, k))
		}
	}
}

// await waits for a lease, as long as a request may. It reports whether there are units.
func (s *Store) await(ctx context.Context, l *lease) bool {
	patience := time.NewTimer(s.config.Wait)
	defer patience.Stop()
	var soon <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok { // leaves the region's store time to decide once more
		timer := time.NewTimer(time.Until(deadline) * 3 / 4)
		defer timer.Stop()
		soon = timer.C
	}
	select {
	case <-l.done:
		return l.granted
	case <-patience.C:
	case <-soon:
	case <-ctx.Done():
	}
	return false
}
