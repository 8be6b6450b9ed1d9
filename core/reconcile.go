package core

import (
	"context"

	"github.com/weblimit/weblimit/core/store"
)

// carry charges the store with what this process granted the call's clients
// during an outage, as far as it still counts. It follows the first request of a
// client that the store decides again, at the cost of one more round trip. If the
// store does not answer it, nothing is lost: the next request carries.
//
// What was carried stays charged here as well, so that outages that come and go
// grant no more than one outage does.
func (l *Limiter) carry(ctx context.Context, c *call) {
	due, told := calls.Get().(*call), calls.Get().(*call)
	defer due.release()
	defer told.release()
	l.collect(ctx, due, told, c)
	if len(due.checks) == 0 {
		return
	}
	if err := l.store.Charge(ctx, due.checks, due.results); err != nil {
		l.instead.Failed(err)
		_ = l.instead.memory.Refund(ctx, told.checks, told.results) // it fails on no check that was charged before
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
// not know yet, and notes it as told.
func (l *Limiter) collect(ctx context.Context, due, told, c *call) {
	memory := l.instead.memory
	l.instead.carrying.Lock()
	defer l.instead.carrying.Unlock()
	for i, limit := range c.limits {
		if limit.shadow || limit.outage != Local || !carries(c.checks[i].Rule) {
			continue
		}
		rule, key := limit.localRule(c.checks[i].Rule), c.checks[i].Key
		units := used(ctx, memory, rule, key)
		if units == 0 {
			continue
		}
		mark, err := carried(rule)
		if err != nil {
			continue // never: but for the name it is a rule that there is
		}
		if units -= used(ctx, memory, mark, key); units <= 0 {
			continue
		}
		due.add(limit, c.checks[i].Rule, key, units)
		told.add(limit, mark, key, units)
	}
	_ = memory.Take(ctx, told.checks, told.results) // it fails on no check that the store was asked
}

// carries reports whether the store is told of what was granted locally under r.
// Slots are held by whoever granted them, until they are given back there. Of
// operations that are charged once it is not known which the store has charged.
func carries(r *Rule) bool { return r.Algorithm != store.Concurrency && r.Once == 0 }

// used returns the units that count as used, rounded up.
func used(ctx context.Context, memory *Memory, rule *Rule, key []byte) int64 {
	var results [1]Result
	if err := memory.Peek(ctx, []Check{{Key: key, Rule: rule}}, results[:]); err != nil {
		return 0
	}
	return rule.Burst - results[0].Remaining
}

// carried returns the rule under which the stand-in remembers what it has told
// the store of r: both lose their units at the same pace, so their difference is
// what is still to be told. No limit has its name.
func carried(r *Rule) (*Rule, error) {
	n := r.Numbers
	n.Block = Block{}
	twin, err := store.NewRule("carried: "+r.Name, n)
	return &twin, err
}
