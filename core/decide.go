package core

import (
	"context"

	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Allow decides whether a request may go on, and what to tell the client. Each limit that
// applies charges the bucket of its key with its cost. A request that one limit denies is
// charged by none.
//
// Allow takes one round trip to the store, bounded by Config.Timeout and not by the request's
// context: a client that hangs up is charged, too. A bypassed request, or one that no limit
// applies to, takes no round trip.
func (l *Limiter) Allow(r keyfuncs.Request) Decision {
	var d Decision
	l.decideRequest(nil, "", r, &d, nil)
	return d
}

// decideRequest is Allow for adapters; see adapter.Limiter. It writes the decision to where
// it will stay: each copy of one costs as much as making its key. d must be a zero Decision.
//
// room is for the results of more than one limit, if there is enough of it: else they are
// one allocation more. in is memory that the adapter keeps, or nil.
func (l *Limiter) decideRequest(in *seam.Scratch, adapter string, r keyfuncs.Request, d *Decision, room []LimitResult) {
	if in == nil {
		c := calls.Get().(*call)
		l.decideIn(c, adapter, r, d, room)
		calls.Put(c) // unless a function of the application panics
		return
	}
	if in.Memory == nil {
		in.Memory = new(call)
	}
	l.decideIn(in.Memory.(*call), adapter, r, d, room)
}

// decideIn is decideRequest in a call that is empty, and is so again afterwards, unless a function of
// the application panics.
func (l *Limiter) decideIn(c *call, adapter string, r keyfuncs.Request, d *Decision, room []LimitResult) {
	l = l.now()
	d.limiter, d.binding = l, -1
	if room != nil {
		d.many = room[:0]
	}
	asked := c
	switch {
	case len(l.bypass) > 0 && l.bypasses(r):
		d.Allowed, d.Reason = true, ReasonBypassed
		asked = nil
	case l.direct != nil:
		l.decideDirect(c, r, d)
	default:
		l.decideLimits(c, r, d)
	}
	if l.advisor.Looking() {
		l.look(r, asked, d)
	}
	l.final(subject{request: r, adapter: adapter}, asked, d)
	c.Forget()
}

// bypasses reports whether Config.Bypass lets a request through.
func (l *Limiter) bypasses(r keyfuncs.Request) bool {
	for i := range l.bypass {
		switch l.bypass[i].Ask(r) {
		case keyfuncs.Yes:
			return true
		case keyfuncs.Unknown:
			l.advisor.BypassUnanswered(&l.bypass[i], r)
		}
	}
	return false
}

// decideLimits decides a request by the limits that apply to it.
func (l *Limiter) decideLimits(c *call, r keyfuncs.Request, d *Decision) {
	s := subject{request: r}
	if l.remote != nil {
		l.decideRemotely(r.Context(), c, s, d)
		return
	}
	if l.askAll(c, s, d) {
		l.decide(r.Context(), c, s, d)
	}
}

// askAll adds the checks of the limits that apply to a request. It returns false if one of them
// denies without asking the store, and writes that to d.
func (l *Limiter) askAll(c *call, s subject, d *Decision) bool {
	for i := range l.limits {
		if reason := c.ask(&l.limits[i], s.request, s.batch); reason != ReasonUndecided {
			d.refuse(reason, &l.limits[i], s.request, c)
			return false
		}
	}
	return true
}

// AllowKey decides all limits for one key and cost, for jobs and consumers. What a limit reads
// from a request does not apply: By, Cost, CostBy, When, Unless, Tiers, KeepFree, Classes and OncePer.
// [Limiter.Allow] with [keyfuncs.Values] applies them.
//
// The key is as [keyfuncs.Encode] or [keyfuncs.EncodeJoin] writes it, "user:42" for the user 42
// of keyfuncs.User, or any other string. A cost of 0 asks without charging. A negative cost is denied with
// [ReasonInvalidCost], and one above the burst of a limit with [ReasonNeverFits].
//
// A loop that tries again waits for RetryAfter, and gives up if that is 0.
func (l *Limiter) AllowKey(ctx context.Context, key string, cost int64) (d Decision) {
	l = l.now()
	d.limiter, d.binding = l, -1
	var c *call
	switch {
	case cost < 0:
		d.Reason = ReasonInvalidCost
	case l.direct != nil:
		limit := &l.limits[0]
		if rule := limit.ruleWithoutRequest(ctx); len(key) <= 64 {
			var room [64]byte // clearing it takes less than clearing room for the longest key
			l.decideOne(ctx, limit, rule, keyfuncs.AppendKey(room[:0], key), cost, &d)
		} else {
			var room [256]byte
			l.decideOne(ctx, limit, rule, keyfuncs.AppendKey(room[:0], key), cost, &d)
		}
	case l.remote != nil:
		c = calls.Get().(*call)
		defer c.release()
		l.decideRemotely(ctx, c, subject{key: key, cost: cost}, &d)
	default:
		c = l.callFor(ctx, key, cost)
		defer c.release()
		l.decide(ctx, c, subject{key: key, cost: cost}, &d)
	}
	l.final(subject{ctx: ctx}, c, &d)
	return d
}

// callFor asks all limits for one key.
func (l *Limiter) callFor(ctx context.Context, key string, cost int64) *call {
	c := calls.Get().(*call)
	l.askKey(ctx, c, key, cost)
	return c
}

// askKey adds the checks of all limits for one key.
func (l *Limiter) askKey(ctx context.Context, c *call, key string, cost int64) {
	c.keys = keyfuncs.AppendKey(c.keys, key)
	for i := range l.limits {
		limit := &l.limits[i]
		rule := limit.ruleWithoutRequest(ctx)
		c.add(limit, rule, c.keys, limit.capped(cost, rule))
	}
}

// decide decides the checks of a call, holds a request that has to wait for its turn, and
// writes the decision to d.
func (l *Limiter) decide(ctx context.Context, c *call, s subject, d *Decision) {
	if l.waits {
		l.decideInTurn(ctx, c, s, d)
		return
	}
	l.decideNow(ctx, c, s, d)
}

// decideNow asks the store, or decides by the outage actions if it does not answer.
func (l *Limiter) decideNow(ctx context.Context, c *call, s subject, d *Decision) {
	if l.observed != nil && len(c.checks) == 1 && len(c.refused) == 0 && !c.asked {
		l.decideObserved(ctx, c, d)
		return
	}
	if err := l.take(ctx, c); err != nil {
		l.decideOutage(ctx, c, s, err, d)
		return
	}
	d.sumUp(ctx, c)
	if l.follows && d.Allowed && !c.asked {
		l.reserve(ctx, d, c, l.store, l.shared)
	}
}

// decideDirect decides a request by a single limit of a store in this process.
func (l *Limiter) decideDirect(c *call, r keyfuncs.Request, d *Decision) {
	limit := &l.limits[0]
	key, rule, cost, class, reason := limit.ask(c.keys, r, &c.reading, false)
	c.keys = key
	switch {
	case rule != nil:
		l.decideOne(r.Context(), limit, rule, key, cost, d)
		d.one[0].class = class
	case reason == ReasonUndecided:
		d.conclude()
	case c.enforced(limit, reason) == ReasonUndecided:
		d.sumUp(r.Context(), c)
	default:
		d.refuse(reason, limit, r, c)
	}
}

// decideOne is decide for a single check of a store in this process. The store writes the result
// to where it stays: copies are a large part of the time of such a decision.
func (l *Limiter) decideOne(ctx context.Context, from *limit, rule *Rule, key []byte, cost int64, d *Decision) {
	d.count = 1
	r := &d.one[0]
	r.Rule, r.Shadow, r.Hidden = rule, from.shadow, from.hidden
	l.direct.TakeOne(rule, key, cost, &r.Result)
	l.warn(ctx, from, key, cost, r, nil)
	d.conclude()
}

// decideObserved is decideOne for a limiter with observers, which may ask for the key.
func (l *Limiter) decideObserved(ctx context.Context, c *call, d *Decision) {
	check, from := &c.checks[0], c.limits[0]
	d.count = 1
	r := &d.one[0]
	r.Rule, r.Shadow, r.Hidden, r.class = check.Rule, from.shadow, from.hidden, c.classOf(from)
	began := l.shared.now()
	l.observed.TakeOne(check.Rule, check.Key, check.Cost, &r.Result)
	c.measured(l.shared, began)
	l.warn(ctx, from, check.Key, check.Cost, r, nil)
	d.conclude()
}

// take has the store decide the checks of a call, and measures the time for observers.
func (l *Limiter) take(ctx context.Context, c *call) error {
	switch {
	case len(c.checks) == 0:
		return nil // no limit applies
	case l.observers == nil:
		return l.askStore(ctx, c)
	}
	began := l.shared.now() // in memory, time.Now would take half as long as the check
	err := l.askStore(ctx, c)
	c.measured(l.shared, began)
	return err
}

func (l *Limiter) askStore(ctx context.Context, c *call) error {
	if m, ok := l.store.(*Memory); ok {
		if c.entries != nil {
			return c.takeEntries(ctx, m)
		}
		return m.Take(ctx, c.checks, c.results)
	}
	bounded := within(ctx, c.bound(l.timeout))
	defer bounded.release()
	if err := c.take(bounded, l.store); err != nil {
		return err
	}
	l.shared.Answered()
	if l.shared.untold.any() {
		l.reconcile(bounded, c)
	}
	l.advisor.StoreAnswers()
	return nil
}
