package core

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

// call is the working memory of one decision.
type call struct {
	keys    []byte
	limits  []*limit
	checks  []Check
	results []Result
	reading keyfuncs.Reading // the request as functions of the application see it
	classes []classed        // of the limits that have classes
	shares  []shareOf        // under limits with Fair
	refused []refusal        // by limits in shadow mode, without asking the store
	exact   bool             // in an outage, a cost above the share of this process does not fit
	asked   bool             // of a question of compose.Together, whose asker settles what it charges
	asker   *asked           // that wants warnings, or nil

	most    time.Duration // how long the store may take, if less than the limiter's timeout; 0 for no bound
	entries []seam.Entry  // of a catalog, which each check is for: see takeEntries; nil for other limiters
	apart   bool          // each of them is charged by itself

	outage    *call         // what was decided without the store, or nil
	by        Store         // that decided it in place of the limiter's; nil if none did
	checkTime time.Duration // how long stores took; measured for observers only
	waitTime  time.Duration // how long the request waited for its turn

	// When a store was first asked and last answered. They say nothing, and may be those of an
	// earlier decision, while checkTime is 0.
	checkStart, checkEnd time.Time
	seen                 pooledObservation // of this decision, for observers
	found                []advice.Key      // by its limits, for advice
}

// refusal is a limit in shadow mode that would have denied the request without asking the store.
type refusal struct {
	limit  *limit
	reason Reason
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) add(l *limit, rule *Rule, key []byte, cost int64) {
	or := l.choice > 0 && len(c.limits) > 0 && c.limits[len(c.limits)-1].choice == l.choice
	c.limits = append(c.limits, l)
	c.checks = append(c.checks, Check{Key: key, Rule: rule, Cost: cost, Shadow: l.shadow, Or: or})
	c.results = append(c.results, Result{})
}

// take has a store decide the checks.
func (c *call) take(ctx context.Context, from Store) error {
	if c.entries != nil {
		return c.takeEntries(ctx, from)
	}
	return from.Take(ctx, c.checks, c.results)
}

// bound returns how long a store may take.
func (c *call) bound(timeout time.Duration) time.Duration {
	if c.most > 0 {
		return min(timeout, c.most)
	}
	return timeout
}

// release returns c to the pool.
func (c *call) release() {
	c.Forget()
	calls.Put(c)
}

// Forget prepares c for the next decision. Room that long keys have taken is not kept.
func (c *call) Forget() {
	if cap(c.keys) > 4096 {
		c.keys = nil
	}
	c.keys, c.exact, c.asked, c.by, c.most = c.keys[:0], false, false, nil, 0
	if c.entries != nil {
		c.entries, c.apart = nil, false
	}
	c.asker = nil
	c.checkTime, c.waitTime = 0, 0
	if c.reading.Request != nil {
		c.reading = keyfuncs.Reading{}
	}
	if c.outage != nil {
		c.outage.release()
		c.outage = nil
	}
	c.reset()
}

// measured notes that a store was asked, at a time of s.now, and has answered or failed now.
func (c *call) measured(s *shared, asked int64) {
	answered := s.now()
	if c.checkTime == 0 {
		c.checkStart = s.at(asked)
	}
	c.checkEnd = s.at(answered)
	c.checkTime += time.Duration(answered - asked)
}

// kept returns a copy of a check for longer than the call, whose memory is used again.
func kept(check *Check) Check {
	own := *check
	own.Key, own.Once, own.Share = bytes.Clone(own.Key), bytes.Clone(own.Once), cloneShare(own.Share)
	return own
}

// reset forgets the checks and keeps the keys. The first check is not cleared, since most calls
// have no other and the next call overwrites it: clearing takes longer than writing it.
func (c *call) reset() {
	if len(c.checks) == 0 && len(c.refused) == 0 && len(c.classes) == 0 { // of decideDirect
		return
	}
	if len(c.checks) > 1 {
		clear(c.checks[1:])
		clear(c.limits[1:])
	}
	c.limits, c.checks, c.results, c.refused, c.classes, c.shares = c.limits[:0], c.checks[:0], c.results[:0], c.refused[:0], c.classes[:0], c.shares[:0]
}

// withoutStore returns the working memory of a decision without the store, in an outage. It is
// released with c, so that observers can read it, and empty each time.
func (c *call) withoutStore() *call {
	if c.outage == nil {
		c.outage = calls.Get().(*call)
	}
	c.outage.keys, c.outage.by, c.outage.asker = c.outage.keys[:0], nil, c.asker
	c.outage.entries, c.outage.apart = nil, c.apart
	c.outage.reset()
	return c.outage
}

// ask adds the check of a limit, if it applies to the request. It returns a
// reason to deny the request without asking the store, or ReasonUndecided. A batch is no
// operation of its own, and its cost is set later.
func (c *call) ask(limit *limit, r keyfuncs.Request, batch bool) Reason {
	start, shares := len(c.keys), len(c.shares)
	keys, rule, cost, class, reason := limit.ask(c.keys, r, &c.reading, batch)
	if class > 0 {
		c.classes = append(c.classes, classed{limit, class})
	}
	if rule != nil {
		c.keys = keys
		c.add(limit, rule, keys[start:len(keys):len(keys)], cost)
		if limit.fair != nil {
			reason = c.askShare(limit, r)
		}
		if rule.Once > 0 && !batch && reason == ReasonUndecided {
			reason = c.askOnce(limit, r)
		}
		if reason != ReasonUndecided { // it charges nothing
			last := len(c.checks) - 1
			c.limits, c.checks, c.results, c.shares = c.limits[:last], c.checks[:last], c.results[:last], c.shares[:shares]
		}
	}
	if reason == ReasonUndecided {
		return reason
	}
	return c.enforced(limit, reason)
}

// classOf returns the class of the request under a limit, 0 for limits without classes.
func (c *call) classOf(l *limit) uint8 {
	for i := range c.classes {
		if c.classes[i].limit == l {
			return c.classes[i].class
		}
	}
	return 0
}

// enforced returns a reason to deny the request without asking the store, unless the
// limit is in shadow mode. Then it notes the reason for observers.
func (c *call) enforced(limit *limit, reason Reason) Reason {
	if !limit.shadow {
		return reason
	}
	c.refused = append(c.refused, refusal{limit, reason})
	return ReasonUndecided
}

// ask appends the key of a request under the limit to keys, and returns the rule and the cost to
// check. rule is nil if the limit does not apply, or if there is a reason to deny the request
// without asking the store, which is ReasonUndecided otherwise. It is returned in shadow mode, too.
// Functions of the application get the request by reading. class is that of the request from 1 on, if the limit has classes. The cost of a batch is not asked for.
func (l *limit) ask(keys []byte, r keyfuncs.Request, reading *keyfuncs.Reading, batch bool) (_ []byte, rule *Rule, cost int64, class uint8, _ Reason) {
	shown := r
	if l.shows {
		*reading = keyfuncs.Reading{Request: r}
		shown = reading
	}
	for i := range l.when {
		switch l.when[i].Ask(shown) {
		case keyfuncs.No:
			return keys, nil, 0, 0, ReasonUndecided
		case keyfuncs.Unknown:
			if reading.Repeated() != "" {
				return keys, nil, 0, 0, ReasonAmbiguousKey
			}
			l.advice.ConditionUnanswered(r)
		}
	}
	keys, presence := l.key.Append(keys, r)
	if l.plain && presence == keyfuncs.Present {
		return keys, &l.rule, l.cost, 0, ReasonUndecided
	}
	if presence != keyfuncs.Present {
		shares, reason := l.lacking(presence)
		if !shares {
			return keys, nil, 0, 0, reason
		}
		keys = append(keys, missingKey...)
	}
	rule, cost = &l.rule, l.cost
	if l.tiers != nil {
		rule = l.tiers.rule(shown)
	}
	if l.scaling != nil {
		rule = l.scaleNow(r.Context(), rule)
	}
	if l.classes != nil {
		if rule, class = l.ofClass(rule, r, shown, reading); rule == nil {
			return keys, nil, 0, 0, ReasonAmbiguousKey
		}
	}
	if presence != keyfuncs.Present && rule.Penalized() {
		rule = l.unpenalized(rule)
	}
	if l.costBy != nil && !batch {
		if cost = l.costBy(shown); cost < 0 && reading.Repeated() == "" {
			return keys, nil, 0, 0, ReasonInvalidCost
		}
		if cost > rule.Burst && !l.upToBurst && l.choice == 0 && reading.Repeated() == "" {
			l.advice.NeverFits(cost, rule.Burst)
		}
		if l.isFree(cost) {
			cost = 1
		}
	}
	if l.shows && reading.Repeated() != "" {
		return keys, nil, 0, 0, ReasonAmbiguousKey
	}
	cost = l.capped(cost, rule)
	return keys, rule, cost, class, ReasonUndecided
}

// repeated names the part of the request that is there several times, where the key of the
// limit, of its client or of its operation needs one.
func (l *limit) repeated(r keyfuncs.Request) string {
	if what := l.key.Repeated(r); what != "" {
		return what
	}
	if l.fair != nil {
		if what := l.fair.repeated(r); what != "" {
			return what
		}
	}
	return l.once.Repeated(r)
}

// firstWith returns the name of the first limit of a call that is enforced and has an outage
// action. It is "" if there is none, and without a call.
func (c *call) firstWith(action OutageAction) string {
	if c == nil {
		return ""
	}
	for i, limit := range c.limits {
		if !limit.shadow && limit.outage == action {
			return c.checks[i].Rule.Name
		}
	}
	return ""
}

// askOnce adds the operation key to the last check, if the request has one. It returns
// a reason to deny the request, or ReasonUndecided.
func (c *call) askOnce(l *limit, r keyfuncs.Request) Reason {
	start := len(c.keys)
	keys, presence := l.once.Append(c.keys, r)
	switch presence {
	case keyfuncs.Present:
		check := &c.checks[len(c.checks)-1]
		keys = appendTarget(keys, r, check.Cost-l.cost)
		c.keys = keys
		check.Once = keys[start:len(keys):len(keys)]
	case keyfuncs.Ambiguous:
		return ReasonAmbiguousKey
	case keyfuncs.Missing:
	}
	return ReasonUndecided
}
