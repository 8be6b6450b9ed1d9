package regions

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// answer sets the caller's results.
func (s *Store) answer(c *call, checks []store.Check, results []store.Result, peeks bool) {
	for n, i := range c.atHome {
		results[i] = c.homeResults[n]
	}
	for n, i := range c.at {
		if p := &c.parts[i]; p.plan.mode.Mode == store.RegionsLeased {
			results[i] = s.answerLeased(p, &checks[i], &c.results[n], peeks)
		} else {
			results[i] = c.results[n]
		}
	}
}

// answerLeased returns the answer to the check of a leased limit under the limit's own numbers. What is left is what
// the region can still grant, and what home had when it was last asked in this period: all of its pool, if it was not.
// A check that only peeks fits if that much is left.
func (s *Store) answerLeased(p *part, c *store.Check, r *store.Result, peeks bool) store.Result {
	floor, pool := int64(0), p.plan.pool.Burst
	if p.from == fromFloor {
		floor = r.Remaining
	}
	share, empty, until := p.known.left, p.known.empty, p.known.until
	if p.known.ofHome {
		pool = p.known.pool
	}
	left := max(min(floor+share+pool, p.plan.rule.Burst), 0)
	if peeks && !r.Blocked && c.Cost <= min(left, p.plan.most()) {
		r.Allowed = true
	}
	if !r.Allowed {
		left = min(left, max(c.Cost-1, 0)) // as far as the region knows
	}
	of := reading(p.plan.rule, left, r)
	answer := of.Result(p.plan.rule, c.Cost)
	answer.Allowed, answer.Charged, answer.Blocked, answer.Cached = r.Allowed, r.Charged, r.Blocked, r.Cached
	answer.At = r.At
	switch {
	case r.Allowed:
		answer.RetryAfter = 0
	case r.Blocked:
		answer.RetryAfter, answer.Window = r.RetryAfter, r.Window
	case c.Cost > p.plan.most(): // waiting can't help
		answer.RetryAfter = 0
	default:
		again := r.RetryAfter
		if p.from != fromFloor && p.plan.flows() {
			again = 0 // the end of the period of a share, when no units come
		}
		answer.RetryAfter = retryAfter(again, empty, time.Duration(until))
		answer.Window = answer.RetryAfter
	}
	return answer
}

// known is what a process knows of a key at a moment, for answers.
type known struct {
	left   int64 // units that the region has leased and not spent
	pool   int64 // units that home had left, if ofHome is set
	ofHome bool
	empty  bool  // home has nothing
	until  int64 // nanoseconds until it has, if it is empty; otherwise until the period ends
}

// knows returns what is known of the key. k.mu is held.
func (k *key) knows(now int64) (all known) {
	if k.ends == 0 || now >= k.until {
		return known{}
	}
	all = known{left: k.left, pool: k.pool, ofHome: k.knowsOf, until: k.until - now}
	if k.isEmpty(now) {
		all.pool, all.ofHome, all.empty, all.until = 0, true, true, max(k.emptyTil, k.fullTil)-now
	}
	return all
}

// most returns the largest cost that a request can have: what home can lease at once, beside the overdraft.
func (p *plan) most() int64 {
	most := p.pool.Burst + p.mode.Overdraft
	if p.floor != nil {
		most = max(most, p.floor.Burst)
	}
	return min(most, p.rule.Burst)
}

// soon is how long a client is told to wait while units may be on their way.
const soon = time.Second

// retryAfter returns how long a denied client is to wait: until its floor or home has units again, whatever comes
// first, or for a moment if home may have some now. again is when the floor has, or 0 if that is not known.
func retryAfter(again time.Duration, empty bool, until time.Duration) time.Duration {
	wait := soon
	if empty {
		wait = until.Truncate(time.Microsecond) + time.Microsecond
	}
	if again > 0 {
		wait = min(wait, again)
	}
	return wait
}

// reading returns the reading of a bucket under a rule that has units left. How the rest came about, r says as far as
// it knows.
func reading(rule *store.Rule, left int64, r *store.Result) (reading counting.Reading) {
	used := rule.Burst - left
	reading.Charged, reading.At = r.Charged, r.At
	n := &reading.Numbers
	switch rule.Algorithm {
	case store.TokenBucket:
		debt := used * rule.Integers.Unit
		n[0], n[1] = debt/rule.Integers.Rate, debt%rule.Integers.Rate
	case store.SlidingWindow: // all counts as of a window that began half a window ago
		n[0], n[2] = used, rule.Integers.Unit/2
	default:
		n[0], n[1] = used, endOfWindow(rule, r)
	}
	return reading
}

// endOfWindow returns in how many microseconds the window of a result ends.
func endOfWindow(rule *store.Rule, r *store.Result) int64 {
	if rule.Algorithm == store.Calendar {
		_, end, _ := rule.Period(r.At)
		return end - r.At
	}
	if reset := r.ResetAfter.Microseconds(); reset > 0 {
		return reset
	}
	return rule.Window.Microseconds()
}
