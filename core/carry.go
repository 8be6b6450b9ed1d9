package core

import "context"

// carry charges the store with what this process granted the call's clients
// during an outage, as far as it still counts. It follows the first request of a
// client that the store decides again, at the cost of one more round trip. If the
// store does not answer it, nothing is lost: the next request carries.
//
// What was carried stays charged here as well, so that outages that come and go
// grant no more than one outage does.
func (l *Limiter) carry(ctx context.Context, c *call) {
	due, carried := calls.Get().(*call), calls.Get().(*call)
	defer due.release()
	defer carried.release()
	l.collect(due, carried, c)
	if len(due.checks) == 0 {
		return
	}
	if err := l.store.Charge(ctx, due.checks, due.results); err != nil {
		l.instead.failed(err)
		_ = l.instead.memory.Refund(ctx, carried.checks, carried.results) // it fails on no check that was charged before
		return
	}
	for i, limit := range due.limits { // this charge may be the one that reaches a level
		if check := &due.checks[i]; len(limit.warnAt) > 0 {
			r := LimitResult{Rule: check.Rule, Result: due.results[i]}
			l.warn(ctx, limit, check.Key, check.Cost, &r)
		}
	}
}

// collect finds what the stand-in granted the call's clients and the store does
// not know yet, and notes it as carried.
func (l *Limiter) collect(due, carried, c *call) {
	memory := l.instead.memory
	l.instead.carrying.Lock()
	defer l.instead.carrying.Unlock()
	for i, limit := range c.limits {
		if limit.shadow || limit.outage != Local || !c.checks[i].Rule.carries() {
			continue
		}
		rule, key := limit.localRule(c.checks[i].Rule), c.checks[i].Key
		units := memory.used(rule, key)
		if units == 0 {
			continue
		}
		mark := rule.carried()
		if units -= memory.used(mark, key); units <= 0 {
			continue
		}
		due.add(limit, c.checks[i].Rule, key, units)
		carried.add(limit, mark, key, units)
	}
	_ = memory.decide(carried.checks, carried.results, true) // it fails on no check that the store was asked
}

// carries reports whether the store is told of what was granted locally under r.
// Slots are held by whoever granted them, until they are given back there. Of
// operations that are charged once it is not known which the store has charged.
func (r *Rule) carries() bool { return r.Algorithm != Concurrency && r.once == 0 }

// used returns the units that count as used, rounded up.
func (m *Memory) used(rule *Rule, key []byte) int64 {
	var results [1]Result
	if err := m.decide([]Check{{Key: key, Rule: rule}}, results[:], false); err != nil {
		return 0
	}
	return rule.Burst - results[0].Remaining
}

// carried returns the rule under which the stand-in remembers what it has told
// the store of r: both lose their units at the same pace, so their difference is
// what is still to be told.
func (r *Rule) carried() *Rule {
	mark := *r
	mark.id ^= carriedID
	mark.block = Block{}
	return &mark
}

// carriedID keeps the two apart.
const carriedID = 0x5bd1e995
