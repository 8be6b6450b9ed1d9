package core

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// reconcile charges the store with what this process granted the call's keys during an
// outage, as far as it still counts. It runs after the first request of a key that the store
// decides again, and costs one more round trip. If the store does not answer, nothing is
// lost: the next request tries again. Only days and months, which are paid for, are not charged again if
// nobody knows whether they were charged.
//
// The local store keeps these charges too. So outages that come and go grant no more than
// one outage does.
func (l *Limiter) reconcile(ctx context.Context, c *call) {
	if !l.mayOwe(c) {
		return
	}
	due, marks := calls.Get().(*call), calls.Get().(*call)
	defer due.release()
	defer marks.release()
	l.collectGrants(ctx, due, marks, c)
	if len(due.checks) == 0 {
		return
	}
	if err := l.store.Charge(ctx, due.checks, due.results); err != nil {
		l.shared.Failed(err)
		l.keepGrants(ctx, due, marks, err)
		return
	}
	for i, limit := range due.limits { // this charge may reach a warning level
		check := &due.checks[i]
		if n := due.results[i].Forgiven; n > 0 && l.observers != nil {
			own := kept(check)
			l.settled(Settlement{Rule: check.Rule, Shadow: limit.shadow, Forgiven: n, check: &own})
		}
		if len(limit.warnAt) > 0 || c.asker != nil {
			r := LimitResult{Rule: check.Rule, Result: due.results[i]}
			l.warn(ctx, limit, check.Key, check.Cost, &r, c.asker)
		}
	}
}

// mayOwe reports whether this process may have granted the call's keys something that the store
// does not know of.
func (l *Limiter) mayOwe(c *call) bool {
	for i, limit := range c.limits {
		if limit.tells(c.checks[i].Rule) && l.shared.untold.has(c.checks[i].Rule, c.checks[i].Key) {
			return true
		}
	}
	return false
}

// collectGrants adds to due what the local store granted the call's keys and the store does not
// know of, and marks it in the local store as known.
func (l *Limiter) collectGrants(ctx context.Context, due, marks, c *call) {
	local, now := l.shared.local, l.shared.localTime()
	for i, limit := range c.limits {
		if !limit.tells(c.checks[i].Rule) {
			continue
		}
		rule, key := limit.localRule(c.checks[i].Rule), c.checks[i].Key
		l.shared.untold.tell(rule, key, now, func() int64 {
			units, ends, _ := used(ctx, local, rule, key)
			if units == 0 {
				return 0
			}
			mark, err := markRule(rule, ends)
			if err != nil {
				return units // can't happen: apart from its name the rule was valid before
			}
			told, _, _ := used(ctx, local, mark, key)
			if units <= told {
				return units
			}
			n := len(marks.checks)
			due.add(limit, c.checks[i].Rule, key, units-told)
			marks.add(limit, mark, key, units-told)
			_ = local.Take(ctx, marks.checks[n:], marks.results[n:]) // can't fail: the store has answered the same check
			return units
		})
	}
}

// keepGrants leaves the grants in due for another request to tell, since the store could not be
// charged.
func (l *Limiter) keepGrants(ctx context.Context, due, marks *call, err error) {
	local := l.shared.local
	var undone *store.Undone
	certain := errors.As(err, &undone)
	for i, limit := range due.limits {
		if due.checks[i].Rule.Algorithm == store.Calendar && (!certain || !slices.Contains(undone.Checks, i)) {
			continue
		}
		_ = local.Refund(ctx, marks.checks[i:i+1], marks.results[i:i+1]) // can't fail: the same check was charged before
		rule, key := limit.localRule(due.checks[i].Rule), due.checks[i].Key
		_, _, lasts := used(ctx, local, rule, key)
		l.shared.untold.add(rule, key, l.shared.localTime(), lasts)
	}
}

// tells reports whether the store is charged with what the limit grants locally under r.
func (l *limit) tells(r *Rule) bool { return !l.shadow && l.outage != Allow && reconciles(r) }

// reconciles reports whether the store is charged afterwards for local grants under r. Slots
// are given back where they were granted. For operations that are charged once, it is
// unknown whether the store has charged them already.
func reconciles(r *Rule) bool { return r.Algorithm != store.Concurrency && r.Once == 0 }

// used returns the units that count as used, rounded up, when none of them does any more, and how long that is from now.
func used(ctx context.Context, memory *Memory, rule *Rule, key []byte) (units, ends int64, lasts time.Duration) {
	var results [1]Result
	if err := memory.Peek(ctx, []Check{{Key: key, Rule: rule}}, results[:]); err != nil {
		return 0, 0, 0
	}
	r := &results[0]
	return rule.Burst - r.Remaining, r.At + r.ResetAfter.Microseconds(), r.ResetAfter
}

// markRule returns the rule under which the local store counts what the store has been charged
// of r's grants. Both lose their units at the same pace, so their difference is what the
// store does not know of. The space in its name keeps it apart from every limit's name. Of a limit
// whose windows begin with first use, a mark begins later than its window, and so ends later: it is
// named after the end of the window, which later windows do not have.
func markRule(r *Rule, ends int64) (*Rule, error) {
	n, name := r.Numbers, "reconciled: "+r.Name
	n.Block = Block{}
	if n.FromUse {
		name += " " + strconv.FormatInt(ends, 36)
	}
	twin, err := store.NewRule(name, n)
	return &twin, err
}
