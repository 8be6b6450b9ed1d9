package core

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

// operationTTL is how long the store remembers seam.Ask.Operation, and operationRepeats how
// often it may be repeated.
const (
	operationTTL     = 10 * time.Minute
	operationRepeats = 1000
)

// together is the working memory of questions that are asked together.
type together struct {
	adapter string
	timeout time.Duration // the shortest
	asks    []asked
	calls   []*call // of the questions; nil where no limit is asked
	now     []*Limiter
	joint   *call   // what the store is asked: the checks of all, each key and rule once
	where   [][]int // for each question, where its checks are in joint
	denied  bool    // a question is denied without asking the store
	oneCall [1]*call
	oneNow  [1]*Limiter
}

// decideTogether asks questions together, by one call of the store that their limiters share, and decides
// them all or nothing; see compose.Together.
func decideTogether(ctx context.Context, how seam.Call, asks []asked) error {
	t, err := newTogether(ctx, how, asks)
	if err != nil {
		return err
	}
	defer t.release()
	switch {
	case how.Verb == seam.Peek:
		return t.lookAhead(ctx)
	case how.Verb == seam.GiveBack:
		return t.giveBack(ctx)
	case t.denied:
	case asks[0].AtMost:
		t.grant(ctx)
	default:
		if err := t.take(ctx); err != nil {
			t.decideOutage(ctx, err)
		} else {
			t.distribute(ctx, false)
		}
	}
	t.conclude(ctx)
	return nil
}

// lookAhead decides without a charge, and without observers.
func (t *together) lookAhead(ctx context.Context) error {
	if !t.denied && len(t.joint.checks) > 0 {
		bounded := within(ctx, t.timeout)
		defer bounded.release()
		if err := t.now[0].store.Peek(bounded, t.joint.checks, t.joint.results); err != nil {
			return err
		}
		t.distribute(ctx, true)
	}
	t.agree(true)
	return nil
}

// newTogether asks all limits for their checks.
func newTogether(ctx context.Context, how seam.Call, asks []asked) (*together, error) {
	t := &together{adapter: how.Adapter, timeout: how.Timeout, asks: asks}
	if len(asks) == 1 {
		t.calls, t.now = t.oneCall[:], t.oneNow[:]
	} else {
		t.calls, t.now = make([]*call, len(asks)), make([]*Limiter, len(asks))
	}
	for i := range asks {
		l := asks[i].Limiter.now()
		t.now[i] = l
		if t.timeout <= 0 || l.timeout < t.timeout {
			t.timeout = l.timeout
		}
		if l.shared != t.now[0].shared {
			t.release()
			return nil, &seam.AskError{Ask: i, Text: "limiters of different stores can't decide together"}
		}
		if err := t.ask(ctx, i); err != nil {
			t.release()
			return nil, err
		}
	}
	if err := t.join(); err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

func (t *together) release() {
	for _, c := range t.calls {
		if c != nil {
			c.release()
		}
	}
	if t.joint != nil && t.where != nil {
		t.joint.release()
	}
}

// ask collects the checks of question i.
func (t *together) ask(ctx context.Context, i int) error {
	q, l := &t.asks[i], t.now[i]
	d := &q.Decision
	*d = Decision{limiter: l, binding: -1, many: d.many[:0]}
	q.Granted, q.Delay, q.Held, q.Unsettled, q.Warnings = 0, 0, nil, false, nil
	if q.Entries != nil {
		t.calls[i] = l.askEntries(q)
		return nil
	}
	for name := range q.Costs {
		if l.limitOf(name) == nil {
			return &seam.AskError{Ask: i, Text: fmt.Sprintf("a cost for the limit %q, which is not one of those that decide", name)}
		}
	}
	seen := q.Request
	if seen == nil {
		seen = q.Seen
	}
	if len(l.bypass) > 0 && seen != nil && l.bypasses(seen) {
		d.Allowed, d.Reason, q.Granted = true, ReasonBypassed, q.Cost
		return nil
	}
	c := calls.Get().(*call)
	t.calls[i] = c
	if q.Warn {
		c.asker = q
	}
	if q.Request == nil {
		c.keys = keyfuncs.AppendKey(c.keys, q.Key)
	}
	for j := range l.limits {
		limit := &l.limits[j]
		cost, given := costFor(q, limit.rule.Name)
		switch {
		case cost < 0:
			d.Reason = ReasonInvalidCost
			t.denied = true
			return nil
		case q.Request == nil:
			if !given {
				cost = 1
			}
			rule := limit.ruleWithoutRequest(ctx)
			c.add(limit, rule, c.keys, limit.capped(cost, rule))
		default:
			if reason := c.askFor(limit, q, cost, given); reason != ReasonUndecided {
				d.refuse(reason, limit, q.Request, c)
				t.denied = true
				return nil
			}
		}
	}
	if q.Operation != nil {
		if leased := c.operation(q.Operation); leased != nil {
			return &seam.AskError{Ask: i, Text: fmt.Sprintf("limit %q is leased to regions, so no operation is remembered: ask without one", leased.rule.Name)}
		}
	}
	return nil
}

// askFor is ask for a cost that is given, which replaces that of the limit.
func (c *call) askFor(limit *limit, q *asked, cost int64, given bool) Reason {
	r, before := q.Request, len(c.checks)
	reason := c.ask(limit, r, given)
	if !given || q.AtMost || len(c.checks) == before {
		return reason
	}
	check := &c.checks[before]
	check.Cost = limit.capped(cost, check.Rule)
	if check.Rule.Once == 0 {
		return reason
	}
	if once := c.askOnce(limit, r); once != ReasonUndecided {
		c.limits, c.checks, c.results = c.limits[:before], c.checks[:before], c.results[:before]
		return c.enforced(limit, once)
	}
	return reason
}

// operation has the store remember an operation in all checks that do not remember one of their own.
// Slots are never part of one: a limit of concurrent requests can't have OncePer. What costs more is no repeat of
// what costs less. It returns a limit whose store can't remember operations, or nil.
func (c *call) operation(key []byte) (leased *limit) {
	for i := range c.checks {
		check := &c.checks[i]
		if check.Once != nil || check.Cost == 0 || check.Rule.Algorithm == store.Concurrency {
			continue
		}
		if c.limits[i].leased {
			return c.limits[i]
		}
		if check.Rule.Once == 0 {
			check.Rule = c.limits[i].repeatable(check.Rule)
		}
		if check.Rule.Once > 0 {
			check.Once = key
			if more := check.Cost - c.limits[i].cost; more != 0 {
				check.Once = strconv.AppendInt(append(slices.Clip(key), 1), more, 10)
			}
		}
	}
	return nil
}

// repeatable returns r with operations that are remembered.
func (l *limit) repeatable(r *Rule) *Rule {
	return loadOrMake(&l.variants.get(r).repeatable, func() Rule {
		n := r.Numbers
		n.Once, n.Repeats = operationTTL, operationRepeats
		if made, err := store.NewRule(r.Name, n); err == nil {
			return made
		}
		return *r
	})
}

// join makes one call of the checks of all questions. Checks of one key and rule are one check of
// their sum.
func (t *together) join() error {
	if len(t.asks) == 1 && t.calls[0] != nil {
		t.joint = t.calls[0]
	} else {
		t.joint = calls.Get().(*call)
		t.where = make([][]int, len(t.asks))
		for i, c := range t.calls {
			if c == nil {
				continue
			}
			t.where[i] = make([]int, len(c.checks))
			for k := range c.checks {
				at, err := t.joint.merge(c.limits[k], &c.checks[k])
				if err != nil {
					return &seam.AskError{Ask: i, Text: err.Error()}
				}
				t.where[i][k] = at
			}
		}
	}
	if n := len(t.joint.checks) + marksOf(t.joint.checks); n > store.MaxChecks && t.joint.entries == nil {
		return &seam.AskError{Text: fmt.Sprintf("these limits count for %d, with each operation and each penalty for another: the most that is decided together is %d", n, store.MaxChecks)}
	}
	return nil
}

// merge adds a check, or its cost to an equal check, and returns where it is.
func (c *call) merge(from *limit, check *Check) (at int, err error) {
	for i := range c.checks {
		other := &c.checks[i]
		if other.Rule.ID() != check.Rule.ID() || !bytes.Equal(other.Key, check.Key) {
			continue
		}
		if from.choice > 0 || c.limits[i].choice > 0 {
			return 0, fmt.Errorf("the limit %q of First is asked twice for one key, and each request may be charged to another limit: decide these separately", check.Rule.Name)
		}
		if !sameShare(other.Share, check.Share) {
			return 0, fmt.Errorf("the limit %q is asked twice, for two clients that divide it: decide these separately", check.Rule.Name)
		}
		if *other.Rule != *check.Rule || other.Shadow != check.Shadow || !bytes.Equal(other.Once, check.Once) {
			return 0, fmt.Errorf("the limit %q is asked twice for one key, with different numbers or operations: decide these separately", check.Rule.Name)
		}
		other.Cost += min(check.Cost, math.MaxInt64-other.Cost)
		return i, nil
	}
	c.limits, c.checks, c.results = append(c.limits, from), append(c.checks, *check), append(c.results, Result{})
	return len(c.checks) - 1, nil
}

func marksOf(checks []Check) (n int) {
	for i := range checks {
		if checks[i].Once != nil {
			n++
		}
		if checks[i].Rule.Penalized() {
			n++
		}
	}
	return n
}

// take has the store decide all checks by one call.
func (t *together) take(ctx context.Context) error {
	if len(t.joint.checks) == 0 {
		return nil
	}
	l := t.now[0]
	began := l.shared.now()
	t.joint.most = t.timeout
	err := l.askStore(ctx, t.joint)
	for i, c := range t.calls {
		if c != nil && t.now[i].observers != nil {
			c.measured(l.shared, began)
		}
	}
	return err
}

// distribute gives each question its results, and sums them up.
func (t *together) distribute(ctx context.Context, peek bool) {
	for i, c := range t.calls {
		if c == nil {
			continue
		}
		if t.where != nil {
			for k, at := range t.where[i] {
				c.results[k] = t.joint.results[at]
			}
		}
		q := &t.asks[i]
		q.Decision.sumUp(ctx, c)
		for k := range c.results {
			r := &q.Decision.Results()[k]
			if delay := max(r.Turn, c.limits[k].slow.delay(r)); r.Enforced() {
				q.Delay = max(q.Delay, delay)
			}
		}
		noteCharges(q, c, peek)
	}
}

// noteCharges notes what a question has charged for those who settle it.
func noteCharges(q *asked, c *call, peek bool) {
	for k := range c.results {
		q.Unsettled = q.Unsettled || c.results[k].Charged && c.limits[k].reserves()
	}
	if q.Hold {
		hold(q, c, peek)
	}
}

// grant decides a question AtMost, which is alone. Nobody waits for units that are granted.
func (t *together) grant(ctx context.Context) {
	q, c := &t.asks[0], t.calls[0]
	if c == nil {
		return // bypassed
	}
	c.asked, c.most = true, t.timeout
	q.Granted = t.now[0].decideAtMost(ctx, c, subject{request: q.Request, key: q.Key, cost: q.Cost, batch: q.Request != nil}, &q.Decision, nil)
	if q.Decision.Err == nil {
		noteCharges(q, c, false)
	}
}

// decideOutage decides each question by the outage actions of its limits. If one of several is denied,
// what others were granted in place of the store is given back.
func (t *together) decideOutage(ctx context.Context, err error) {
	for i, c := range t.calls {
		if c == nil {
			continue
		}
		q, l := &t.asks[i], t.now[i]
		l.decideOutage(ctx, c, subject{request: q.Request, key: q.Key, cost: max(q.Cost, 1)}, err, &q.Decision)
		q.Decision.held = nil
		if !q.Decision.Allowed {
			t.denied = true
		}
	}
	for _, c := range t.calls {
		if !t.denied || len(t.asks) == 1 || c == nil || c.outage == nil || c.outage.by == nil {
			continue
		}
		bounded := within(ctx, t.timeout)
		_ = c.outage.by.Refund(bounded, c.outage.checks, c.outage.results) // what a fallback store did not hear of counts until its window ends
		bounded.release()
	}
}

// agree has all questions denied if one is: then nothing is held.
func (t *together) agree(peek bool) {
	denied, hopeless := false, false
	var after time.Duration
	for i := range t.asks {
		d := &t.asks[i].Decision
		if d.Reason == ReasonUndecided && !t.denied {
			d.Allowed, d.Reason = true, ReasonWithinLimit // no limit applies
		}
		if d.Reason != ReasonUndecided && !d.Allowed {
			denied, hopeless = true, hopeless || d.RetryAfter == 0
			after = max(after, d.RetryAfter)
		}
	}
	if !denied {
		return
	}
	if hopeless {
		after = 0
	}
	for i := range t.asks {
		q := &t.asks[i]
		if q.Delay = 0; !peek {
			q.Held = nil
		}
		if q.Decision.Allowed || q.Decision.Reason == ReasonUndecided {
			q.Decision.Allowed, q.Decision.Reason, q.Decision.RetryAfter = false, ReasonDeniedTogether, after
		}
	}
}

// conclude makes the decisions final.
func (t *together) conclude(ctx context.Context) {
	for i, c := range t.calls {
		if l, r := t.now[i], t.asks[i].Request; c != nil && r != nil && l.advisor.Looking() {
			l.look(r, c, &t.asks[i].Decision)
		}
	}
	t.agree(false)
	for i := range t.asks {
		q := &t.asks[i]
		s := subject{request: q.Seen, adapter: t.adapter}
		switch {
		case s.request != nil:
		case q.Entries != nil:
			s.ctx = ctx
		default:
			s.ctx = context.Background()
		}
		t.now[i].final(s, t.calls[i], &q.Decision)
	}
}
