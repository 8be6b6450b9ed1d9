package core

import (
	"context"

	"github.com/weblimit/weblimit/core/store"
)

// reconcile charges the store with what this process granted the call's keys during an
// outage, as far as it still counts. It runs after the first request of a key that the store
// decides again, and costs one more round trip. If the store does not answer, nothing is
// lost: the next request tries again.
//
// The local store keeps these charges too. So outages that come and go grant no more than
// one outage does.
func (l *Limiter) reconcile(ctx context.Context, c *call) {
	due, marks := calls.Get().(*call), calls.Get().(*call)
	defer due.release()
	defer marks.release()
	l.collectGrants(ctx, due, marks, c)
	if len(due.checks) == 0 {
		return
	}
	if err := l.store.Charge(ctx, due.checks, due.results); err != nil {
		l.shared.Failed(err)
		_ = l.shared.local.Refund(ctx, marks.checks, marks.results) // can't fail: the same checks were charged before
		return
	}
	for i, limit := range due.limits { // this charge may reach a warning level
		if check := &due.checks[i]; len(limit.warnAt) > 0 {
			r := LimitResult{Rule: check.Rule, Result: due.results[i]}
			l.warn(ctx, limit, check.Key, check.Cost, &r)
		}
	}
}

// collectGrants adds to due what the local store granted the call's keys and the store does not
// know of, and marks it in the local store as known.
func (l *Limiter) collectGrants(ctx context.Context, due, marks, c *call) {
	local := l.shared.local
	l.shared.reconciling.Lock()
	defer l.shared.reconciling.Unlock()
	for i, limit := range c.limits {
		if limit.shadow || limit.outage != Local || !reconciles(c.checks[i].Rule) {
			continue
		}
		rule, key := limit.localRule(c.checks[i].Rule), c.checks[i].Key
		units := used(ctx, local, rule, key)
		if units == 0 {
			continue
		}
		mark, err := markRule(rule)
		if err != nil {
			continue // can't happen: apart from its name the rule was valid before
		}
		if units -= used(ctx, local, mark, key); units <= 0 {
			continue
		}
		due.add(limit, c.checks[i].Rule, key, units)
		marks.add(limit, mark, key, units)
	}
	_ = local.Take(ctx, marks.checks, marks.results) // can't fail: the store has answered the same checks
}

// reconciles reports whether the store is charged afterwards for local grants under r. Slots
// are given back where they were granted. For operations that are charged once, it is
// unknown whether the store has charged them already.
func reconciles(r *Rule) bool { return r.Algorithm != store.Concurrency && r.Once == 0 }

// used returns the units that count as used, rounded up.
func used(ctx context.Context, memory *Memory, rule *Rule, key []byte) int64 {
	var results [1]Result
	if err := memory.Peek(ctx, []Check{{Key: key, Rule: rule}}, results[:]); err != nil {
		return 0
	}
	return rule.Burst - results[0].Remaining
}

// markRule returns the rule under which the local store counts what the store has been charged
// of r's grants. Both lose their units at the same pace, so their difference is what the
// store does not know of. The space in its name keeps it apart from every limit's name.
func markRule(r *Rule) (*Rule, error) {
	n := r.Numbers
	n.Block = Block{}
	twin, err := store.NewRule("reconciled: "+r.Name, n)
	return &twin, err
}
