package regions

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// floorAgain is how long a floor that was used up is not asked for at most: an operator may have blocked its key, or
// reset it.
const floorAgain = time.Second

// findMore looks for units for the checks that were denied. It reports whether there are some, so that it is worth
// while to ask again.
func (s *Store) findMore(ctx context.Context, c *call) (more bool, err error) {
	var few [4]*lease
	waitFor := few[:0]
	if c.hopeless() {
		return false, nil
	}
	for n, i := range c.at {
		p, check, r := &c.parts[i], &c.checks[n], &c.results[n]
		if p.plan.mode.Mode != store.RegionsLeased || r.Allowed {
			continue
		}
		if p.key == nil {
			p.key = s.keys.get(p.plan.id, check.Key)
		}
		found, pending, err := s.unitsFor(ctx, p, check, r, c.sent)
		switch {
		case err != nil:
			return false, err
		case found:
			more = true
		case check.Shadow: // it keeps nobody waiting
		case pending != nil:
			waitFor = append(waitFor, pending)
		default:
			return false, nil // this one is denied, whatever comes for the others
		}
	}
	for _, l := range waitFor {
		if c.waits(l); s.await(ctx, l) {
			more = true
		}
	}
	for n, i := range c.at {
		if p := &c.parts[i]; p.key != nil && !c.results[n].Allowed {
			p.key.mu.Lock()
			if p.key.spend != nil {
				p.use(p.key)
			}
			p.key.mu.Unlock()
		}
	}
	return more, nil
}

// unitsFor looks for units for one check that was denied. found says that the region has some that the check was not
// asked with; pending is a lease that is on its way. The check was sent at a time on the process's clock.
func (s *Store) unitsFor(ctx context.Context, p *part, c *store.Check, r *store.Result, sent int64) (found bool, pending *lease, err error) {
	k := p.key
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plan = p.plan
	now := s.now()
	if !p.asked {
		p.asked = true
		k.ask(c.Cost, now)
	}
	if p.from == fromFloor && r.Remaining == 0 && r.RetryAfter > 0 && !r.Cached {
		// From when it was sent: the answer may have come late, and the next window has a floor of its own.
		k.floorTil = sent + int64(min(r.RetryAfter, floorAgain))
	}
	if k.ends == 0 || now >= k.until {
		var known int64
		if p.from == fromFloor && !r.Cached && p.plan.rule.Algorithm.EndsAtOnce() {
			known = r.At + r.ResetAfter.Microseconds()
		}
		k.mu.Unlock()
		err := s.lookUp(ctx, p.plan, c.Key, k, known)
		k.mu.Lock()
		if err != nil {
			return false, nil, err
		}
	}
	if k.spend != nil && (p.from != fromShare || p.spend != k.spend) {
		return true, nil, nil // the check was not asked with these
	}
	return false, s.leaseFor(p.plan, c.Key, k, max(c.Cost-k.left, 1)), nil // beside what is left
}

// lookUp asks the region's store when the present period of a key ends, unless known says so, and what the region has
// leased for it.
func (s *Store) lookUp(ctx context.Context, p *plan, name []byte, k *key, known int64) error {
	sent := s.now()
	one, answer := []store.Check{{Key: name, Rule: p.period}}, make([]store.Result, 1)
	ends, at := known, int64(0)
	if known == 0 {
		if err := s.local.Peek(ctx, one, answer); err != nil {
			return err
		}
		ends = answer[0].At + answer[0].ResetAfter.Microseconds()
	}
	share, err := p.share(ends)
	if err != nil {
		return err
	}
	one[0].Rule = share
	if err := s.local.Peek(ctx, one, answer); err != nil {
		return err
	}
	at = answer[0].At
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lookedAt = sent
	k.begin(ends, sent+max(ends-at, 0)*int64(time.Microsecond))
	if k.setShare(p, unlimited-answer[0].Remaining); k.share > 0 {
		s.watch()
	}
	return nil
}

// spent notes what the region has left of its leased units, and leases more before they are used up.
func (s *Store) spent(c *call, granted bool) {
	now := s.now()
	for n, i := range c.at {
		p, r := &c.parts[i], &c.results[n]
		if p.plan.mode.Mode != store.RegionsLeased {
			continue
		}
		k := p.key
		if k == nil {
			s.leaseAhead(p, &c.checks[n], r)
			if k = s.keys.find(p.plan.id, c.checks[n].Key); k == nil {
				continue
			}
		}
		k.mu.Lock()
		if p.from == fromShare && k.ends == p.ends && r.Charged {
			k.left = r.Remaining
			p.plan.counts.spent.Add(c.checks[n].Cost)
			if k.isLow(now, s.trip.Load()) {
				s.leaseFor(p.plan, c.checks[n].Key, k, 1)
			}
		}
		if !granted && !r.Allowed && !k.isEmpty(now) {
			p.plan.counts.early.Add(1)
		}
		p.known = k.knows(now)
		k.mu.Unlock()
	}
}

// lookAt notes what is known of the keys of a call that only peeks.
func (s *Store) lookAt(c *call) {
	now := s.now()
	for n, i := range c.at {
		if k := s.keys.find(c.parts[i].plan.id, c.checks[n].Key); k != nil {
			k.mu.Lock()
			c.parts[i].known = k.knows(now)
			k.mu.Unlock()
		}
	}
}
