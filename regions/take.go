package regions

import (
	"context"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// purse is where the units of a request come from.
type purse uint8

const (
	fromFloor purse = iota
	fromShare
	fromNowhere // there is no floor, and nothing is leased
)

// part is one check of a call, and how it is decided.
type part struct {
	plan  *plan
	key   *key // nil while the request is below the floor
	from  purse
	spend *store.Rule // under which units of the share are spent
	ends  int64       // of the period whose units these are
	asked bool        // the units are counted in key.asked
	known known       // of the key, after the decision
}

// use has a check charge what the region has leased. k.mu is held.
func (p *part) use(k *key) { p.key, p.from, p.spend, p.ends = k, fromShare, k.spend, k.ends }

// call is a call that the region and home decide.
type call struct {
	parts []part // of all checks of the caller

	checks  []store.Check  // those that the region decides, as it does
	results []store.Result // of these
	at      []int          // which of the caller's checks these are

	homeChecks  []store.Check
	homeResults []store.Result
	atHome      []int

	sent   int64 // when the region's store was last asked, on the process's clock
	waited bool
}

var calls = sync.Pool{New: func() any { return new(call) }}

// prepare returns the call of checks, or nil if the local store decides all of them as they are, or refuses them.
func (s *Store) prepare(checks []store.Check, results []store.Result) *call {
	if len(checks) != len(results) {
		return nil
	}
	c := calls.Get().(*call)
	plain := true
	for i := range checks {
		if checks[i].Rule == nil {
			c.release()
			return nil
		}
		p := s.plan(checks[i].Rule)
		c.parts = append(c.parts, part{plan: p})
		if p.mode.Mode == store.RegionsHome {
			c.homeChecks, c.homeResults, c.atHome = append(c.homeChecks, checks[i]), append(c.homeResults, store.Result{}), append(c.atHome, i)
		} else {
			c.checks, c.results, c.at = append(c.checks, checks[i]), append(c.results, store.Result{}), append(c.at, i)
		}
		plain = plain && p.mode.Mode == store.RegionsEach
		if p.mode.Mode == store.RegionsLeased && p.floor == nil {
			c.parts[i].from = fromNowhere
		}
	}
	if plain {
		c.release()
		return nil
	}
	return c
}

// release makes the call free to be used again. It keeps no key.
func (c *call) release() {
	clear(c.checks)
	clear(c.homeChecks)
	clear(c.parts)
	c.parts, c.checks, c.results, c.at = c.parts[:0], c.checks[:0], c.results[:0], c.at[:0]
	c.homeChecks, c.homeResults, c.atHome = c.homeChecks[:0], c.homeResults[:0], c.atHome[:0]
	c.waited = false
	calls.Put(c)
}

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

// fill gives the checks the rules by which the region decides them.
func (c *call) fill() {
	for n, i := range c.at {
		p := &c.parts[i]
		if p.plan.mode.Mode != store.RegionsLeased {
			continue
		}
		switch p.from {
		case fromFloor:
			c.checks[n].Rule = p.plan.floor
		case fromShare:
			c.checks[n].Rule = p.spend
		case fromNowhere:
			c.checks[n].Rule = p.plan.period
		}
	}
}

// lacks reports whether an enforced check has nothing to be charged to.
func (c *call) lacks() bool {
	for n, i := range c.at {
		if c.parts[i].from == fromNowhere && !c.checks[n].Shadow && c.checks[n].Cost > 0 {
			return true
		}
	}
	return false
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
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.HomeTimeout)
	defer cancel()
	if undo := s.local.Refund(within, c.checks, c.results); undo != nil && err == nil {
		return undo
	}
	for n := range c.results {
		c.results[n].Charged = false
	}
	return err
}

// guessHome answers the checks of limits that are decided at home as if nothing of them was used.
func (c *call) guessHome() {
	for n := range c.homeChecks {
		check := &c.homeChecks[n]
		unused := reading(check.Rule, check.Rule.Burst, &store.Result{At: c.results[0].At})
		c.homeResults[n] = unused.Result(check.Rule, check.Cost)
	}
}

// fits reports whether all enforced checks fit.
func fits(checks []store.Check, results []store.Result) bool {
	for i := range checks {
		if !results[i].Allowed && !checks[i].Shadow {
			return false
		}
	}
	return true
}

// floorAgain is how long a floor that was used up is not asked for at most: an operator may have blocked its key, or
// reset it.
const floorAgain = time.Second

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

// markLacking denies the checks that have nothing to be charged to.
func (s *Store) markLacking(c *call) {
	for n, i := range c.at {
		if c.parts[i].from == fromNowhere && c.checks[n].Cost > 0 {
			r := &c.results[n]
			r.Allowed, r.Charged, r.Remaining = false, false, 0
		}
	}
}

// shadowed reports whether a check in shadow mode, of a leased limit, does not fit its floor or share.
func (c *call) shadowed() bool {
	for n, i := range c.at {
		if c.checks[n].Shadow && !c.results[n].Allowed && c.parts[i].plan.mode.Mode == store.RegionsLeased {
			return true
		}
	}
	return false
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
			late = true
			c.results[n].Allowed = false
			p.from = fromFloor
			if p.plan.floor == nil {
				p.from = fromNowhere
			}
			p.key.mu.Lock()
			p.key.end(p.ends)
			p.key.mu.Unlock()
		}
	}
	if !late {
		return false, nil
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.HomeTimeout)
	defer cancel()
	err = s.local.Refund(within, c.checks, c.results)
	for n := range c.results {
		c.results[n].Charged = false
	}
	return true, err
}

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

// hopeless reports whether leased units would not help: a check is denied for another reason. Limits that are not leased are
// asked again after a call that only peeked, so that the denial counts towards their penalties.
func (c *call) hopeless() bool {
	peeked := c.lacks()
	for n, i := range c.at {
		switch p, check, r := &c.parts[i], &c.checks[n], &c.results[n]; {
		case r.Allowed:
		case p.plan.mode.Mode == store.RegionsLeased:
			if r.Blocked || check.Cost > p.plan.rule.Burst {
				return true
			}
		case !check.Shadow && !peeked:
			return true
		}
	}
	return false
}

// waits counts the call among those that have waited for home, once.
func (c *call) waits(l *lease) {
	if !c.waited {
		c.waited = true
		l.counts.waited.Add(1)
	}
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
