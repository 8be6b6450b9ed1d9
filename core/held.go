package core

import (
	"time"

	"github.com/weblimit/weblimit/internal/seam"
)

// hold lists what a decision has charged, for a settlement that may come from elsewhere: an estimate of nothing, too, since
// the real cost is charged. If it was only peeked at, that is what it would charge: of a cost that is given all.
func hold(q *asked, c *call, peek bool) {
	for i := range c.results {
		r, check := &c.results[i], &c.checks[i]
		asks, given := costFor(q, check.Rule.Name)
		if !peek || !given {
			asks = check.Cost
		}
		if !r.Charged && !peek || r.PassedOver || asks == 0 && (peek || !given && !c.limits[i].estimate) {
			continue
		}
		own := kept(check)
		q.Held = append(q.Held, seam.Held{
			Rule: *own.Rule, Key: own.Key, Once: own.Once, Cost: asks,
			Estimate: c.limits[i].estimate, Given: given, Result: *r, Share: own.Share,
		})
		for _, spare := range c.spares(i) { // none if it was only peeked at
			q.Held = append(q.Held, seam.Held{Rule: *spare.check.Rule, Key: spare.check.Key, Spare: true, Result: spare.result})
		}
	}
}

// settleHeld settles what was held at a time, as the end of its request does: see compose.Settle.
func settleHeld(l *Limiter, all []seam.Held, age time.Duration, refund bool, o Outcome) {
	l = l.now()
	r := &reservation{limiter: l, store: l.store, shared: l.shared, began: time.Now().Add(-age)}
	r.charges = make([]charge, len(all))
	for i := range all {
		h, c := &all[i], &r.charges[i]
		rule := h.Rule
		if c.limit = l.limitOf(rule.Name); c.limit == nil {
			c.limit = &limit{rule: rule} // the policy no longer has it
		}
		c.elsewhere, c.spare = true, h.Spare
		c.check = Check{Key: h.Key, Rule: &rule, Cost: h.Cost, Once: h.Once, Share: h.Share}
		c.result, c.first, c.taken = h.Result, h.Cost, h.Cost
		if !h.Result.Charged {
			c.first, c.taken = 0, 0
		}
		c.told, c.spent = h.Told, min(h.Spent, maxSpent)
	}
	if refund {
		r.end(func(*charge) bool { return true })
		return
	}
	r.settle(o)
}

// limitOf returns the limit of a name, or nil.
func (l *Limiter) limitOf(name string) *limit {
	for i := range l.limits {
		if l.limits[i].rule.Name == name {
			return &l.limits[i]
		}
	}
	return nil
}

// costFor returns the cost that a question gives for a limit, if it does.
func costFor(q *asked, name string) (int64, bool) {
	if cost, ok := q.Costs[name]; ok {
		return cost, true
	}
	return q.Cost, q.HasCost || q.AtMost
}
