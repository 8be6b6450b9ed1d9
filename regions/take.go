package regions

import (
	"context"

	"github.com/weblimit/weblimit/core/store"
)

// begin has checks of keys whose floor was used up a moment ago begin with what the region has leased: then the floor is
// not asked first.
func (s *Store) begin(c *call) {
	for n, i := range c.at {
		p := &c.parts[i]
		if p.plan.mode.Mode != store.RegionsLeased {
			continue
		}
		k := s.keys.find(p.plan.id, c.checks[n].Key)
		if k == nil {
			continue
		}
		k.mu.Lock()
		if now := s.now(); k.spend != nil && now < min(k.until, k.floorTil) {
			p.use(k)
			p.asked, k.plan = true, p.plan
			k.ask(c.checks[n].Cost, now)
			if !k.looking && now-k.lookedAt > int64(lookEvery) { // an operator may have reset the key
				s.lookLater(p.plan, c.checks[n].Key, k, k.ends, func([]byte) {})
			}
		}
		k.mu.Unlock()
	}
}

// Take implements [store.Store]. The region decides with one call of its own store. Only a request that finds the
// floor and the share of its key used up may wait for home.
//
// Limits that are decided at home are asked when those of the region fit. If they don't, what the region has charged
// is given back.
func (s *Store) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	c := s.prepare(checks, results)
	if c == nil {
		return s.local.Take(ctx, checks, results)
	}
	defer c.release()
	granted := true
	if len(c.checks) > 0 {
		var err error
		if granted, err = s.takeHere(ctx, c); err != nil {
			return err
		}
	}
	if len(c.atHome) > 0 {
		if err := s.takeAtHome(ctx, c, granted); err != nil {
			return err
		}
	}
	s.answer(c, checks, results, false)
	return nil
}

// takeAtHome decides the checks of limits that are decided at home. granted says whether the region has charged the
// others.
func (s *Store) takeAtHome(ctx context.Context, c *call, granted bool) error {
	if !granted {
		if s.home.Peek(ctx, c.homeChecks, c.homeResults) != nil {
			c.guessHome() // the request is denied, whatever home would say
		}
		return nil
	}
	err := s.home.Take(ctx, c.homeChecks, c.homeResults)
	if err == nil && fits(c.homeChecks, c.homeResults) || len(c.checks) == 0 {
		return err
	}
	if undone := s.undo(ctx, c); undone != nil && err == nil {
		return undone
	}
	return err
}

// undo gives back what the region has charged, also for a request that has ended. Like all of a Refund it sets the results:
// what was denied must be denied again.
func (s *Store) undo(ctx context.Context, c *call) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.HomeTimeout)
	defer cancel()
	err := s.local.Refund(within, c.checks, c.results)
	for n := range c.results {
		c.results[n].Charged = false
	}
	return err
}

// maxTries bounds how often a call asks the region's store. Each time something has happened in between: units were
// leased, another request has spent them, or a period has ended.
const maxTries = 6

// takeHere decides the checks that the region decides.
func (s *Store) takeHere(ctx context.Context, c *call) (granted bool, err error) {
	s.begin(c)
	for tries := 0; ; tries++ {
		c.fill()
		c.sent = s.now()
		if c.lacks() {
			err = s.local.Peek(ctx, c.checks, c.results)
		} else {
			err = s.local.Take(ctx, c.checks, c.results)
		}
		if err != nil {
			return false, err
		}
		s.markLacking(c)
		late, err := s.undoLate(ctx, c)
		if err != nil {
			return false, err
		}
		granted = !late && fits(c.checks, c.results)
		if tries == maxTries || granted && !c.shadowed() {
			break
		}
		more, err := s.findMore(ctx, c)
		if err != nil {
			return false, err
		}
		if granted {
			s.takeShadows(ctx, c, more)
			return true, nil
		}
		if !more && !late {
			break
		}
	}
	s.spent(c, granted)
	return granted, nil
}

// takeShadows asks once more for the shadow checks of a call that was granted, if the region has found units for
// them: each for itself, since they keep nobody from anything. If the store does not answer they count as exceeded.
func (s *Store) takeShadows(ctx context.Context, c *call, more bool) {
	s.spent(c, true)
	if !more {
		return
	}
	for n, i := range c.at {
		p := &c.parts[i]
		if !c.checks[n].Shadow || c.results[n].Allowed || p.from != fromShare {
			continue
		}
		again, answer := c.checks[n:n+1], make([]store.Result, 1)
		again[0].Rule = p.spend
		if s.local.Take(ctx, again, answer) == nil && answer[0].At < p.ends {
			c.results[n] = answer[0]
		}
	}
}

// undoLate gives back what was charged to a period that was over when the region's store decided: a call can be
// delayed on its way. It reports whether that was so.
func (s *Store) undoLate(ctx context.Context, c *call) (late bool, err error) {
	for n, i := range c.at {
		if p := &c.parts[i]; p.from == fromShare && c.results[n].At >= p.ends {
			late, p.late = true, true
			p.from = p.plan.first()
			p.key.mu.Lock()
			p.key.end(p.ends)
			p.key.mu.Unlock()
		}
	}
	if !late {
		return false, nil
	}
	err = s.undo(ctx, c)
	for n, i := range c.at {
		if p := &c.parts[i]; p.late {
			p.late, c.results[n].Allowed = false, false
		}
	}
	return true, err
}
