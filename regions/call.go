package regions

import (
	"sync"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// purse is where the units of a request come from.
type purse uint8

const (
	fromFloor purse = iota
	fromShare
	fromNowhere // there is no floor, and nothing is leased
)

// first returns where the units of a request come from at first.
func (p *plan) first() purse {
	if p.mode.Mode == store.RegionsLeased && p.floor == nil {
		return fromNowhere
	}
	return fromFloor
}

// part is one check of a call, and how it is decided.
type part struct {
	plan  *plan
	key   *key // nil while the request is below the floor
	from  purse
	spend *store.Rule // under which units of the share are spent
	ends  int64       // of the period whose units these are
	asked bool        // the units are counted in key.asked
	late  bool        // they were charged after the period, and go back
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
		c.parts = append(c.parts, part{plan: p, from: p.first()})
		if p.mode.Mode == store.RegionsHome {
			c.homeChecks, c.homeResults, c.atHome = append(c.homeChecks, checks[i]), append(c.homeResults, store.Result{}), append(c.atHome, i)
		} else {
			c.checks, c.results, c.at = append(c.checks, checks[i]), append(c.results, store.Result{}), append(c.at, i)
		}
		plain = plain && p.mode.Mode == store.RegionsEach
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
		if counting.IsDenial(&checks[i], &results[i]) {
			return false
		}
	}
	return true
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
