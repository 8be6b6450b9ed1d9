package core

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/keyfuncs"
)

// atMostTries is how often AllowAtMost asks the store to charge. Each time but the last, the
// store says how much would have fitted.
const atMostTries = 4

// AllowAtMost grants as many of n units as fit now, for consumers that take batches. What it
// grants is what it charges; granted is from 0 to n. The limits apply to the request as in
// [Limiter.Allow], with their keys, tiers and conditions. A batch is usually [keyfuncs.Values]:
//
//	request := keyfuncs.Values{"tenant": "acme", "plan": "pro"}.WithContext(ctx)
//	granted, d := limiter.AllowAtMost(request, int64(len(jobs)))
//	run(jobs[:granted])
//	jobs = jobs[granted:] // if any are left, ask again once d.RetryAfter has passed
//
// n replaces [Limit.Cost], [Limit.CostBy] and the number of [Limit.Estimate]. [Limit.OncePer]
// does not apply: the rest of a batch is no repeat of its beginning.
//
// If some units are granted, the decision is that on them, and is Allowed. If none is, it is
// what Allow says to a request of one unit. RetryAfter is how long until one more unit fits, if
// nobody else takes it. It is 0 if all are granted, or if waiting can't help, and never
// otherwise. A negative n is denied with [ReasonInvalidCost], and 0 asks without charging.
//
// # Several callers at once
//
// The limits are never exceeded, whoever else asks. If n units fit, it takes one call to the
// store; if not, two; and if others take units in between, at most four. Where a denial of many
// units is cached or counts towards a block, one more call looks first. Of callers that compete
// for the last units, one may be granted fewer than would fit.
//
// # With other decorators
//
//   - Nobody waits, under [Limit.Wait], [Limit.LeakyBucket] and [Limit.SlowDown] either.
//   - Slots of a [Concurrent] limit, and what [Limit.Estimate] and [Limit.RefundOn] settle, are
//     given back together, by [Decision.Settle].
//   - A denial counts towards a block of [Limit.Penalty] if not even one unit fits.
//   - Limits in shadow mode do not lower what is granted. One that has less room is not charged.
//   - During an outage each call may take up to Config.Timeout. [Local] grants what this
//     process's share has left, [Allow] up to the burst, and [Deny] nothing.
func (l *Limiter) AllowAtMost(r keyfuncs.Request, n int64) (granted int64, d Decision) {
	l = l.now()
	d.limiter, d.binding = l, -1
	s := subject{request: r, cost: n, batch: true}
	var c *call
	switch {
	case n < 0:
		d.Reason = ReasonInvalidCost
	case len(l.bypass) > 0 && l.bypasses(r):
		granted, d.Allowed, d.Reason = n, true, ReasonBypassed
	default:
		c = calls.Get().(*call)
		defer c.release()
		if l.remote != nil {
			granted = l.decideRemotely(r.Context(), c, s, &d)
		} else if l.askAll(c, s, &d) {
			granted = l.decideAtMost(r.Context(), c, s, &d, nil)
		}
	}
	if l.advisor.Looking() {
		l.look(r, c, &d)
	}
	l.final(s, c, &d)
	return granted, d
}

// AllowKeyAtMost is [Limiter.AllowAtMost] for one key, under all limits: what does not apply in
// [Limiter.AllowKey] does not apply here.
//
//	granted, d := limiter.AllowKeyAtMost(ctx, "tenant:42", int64(len(jobs)))
func (l *Limiter) AllowKeyAtMost(ctx context.Context, key string, n int64) (granted int64, d Decision) {
	l = l.now()
	if n <= 0 {
		return 0, l.AllowKey(ctx, key, n)
	}
	var c *call
	if l.remote != nil {
		c = calls.Get().(*call)
		d.limiter, d.binding = l, -1
		granted = l.decideRemotely(ctx, c, subject{key: key, cost: n, batch: true}, &d)
	} else {
		c = l.callFor(ctx, key, n)
		granted = l.decideAtMost(ctx, c, subject{key: key, cost: n}, &d, nil)
	}
	defer c.release()
	l.final(subject{ctx: ctx}, c, &d)
	return granted, d
}

// decideAtMost decides as many of s.cost units as fit, and returns how many. It writes the
// decision on them to d. If away is not nil, it is why no store is asked: the outage actions decide.
// c.most bounds how long all calls of the store take together.
func (l *Limiter) decideAtMost(ctx context.Context, c *call, s subject, d *Decision, away error) (granted int64) {
	n := s.cost
	var ends time.Time
	if c.most > 0 {
		ends = time.Now().Add(c.most)
	}
	ask, penalized, queued := c.atMost(n)
	if penalized && ask > 0 { // else a denial of many units would count towards a block
		ask = l.fitting(ctx, c, ask)
	}
	for try := 1; ; try++ {
		s.cost = ask
		if c.most > 0 {
			c.most = max(time.Until(ends), 1) // 0 is no bound
		}
		l.decideUnits(ctx, c, s, d, away)
		if d.Allowed || ask <= 1 || d.Reason == ReasonOutageDenied {
			break
		}
		switch fits, current := fitting(d.Results()); {
		case try == atMostTries-1:
			ask = 1
		case !current: // a denial of a moment ago is repeated
			ask = l.fitting(ctx, c, ask)
		case try > 1: // others are taking units, too
			ask = min(max(fits/4, 1), ask-1)
		default:
			ask = min(max(fits, 1), ask-1)
		}
	}
	for i, r := range d.Results() { // others may have decided: the limits of Config.Fallback
		if i < len(queued) && queued[i] != nil && r.Rule == c.checks[i].Rule {
			d.Results()[i].Rule = queued[i] // as clients know it
		}
	}
	if !d.Allowed {
		return 0
	}
	if ask < n {
		d.RetryAfter = max(untilOneMore(d.Results()), time.Microsecond) // 0 means that no wait helps
	}
	return ask
}

// decideUnits asks for a number of units, without waiting for a turn.
func (l *Limiter) decideUnits(ctx context.Context, c *call, s subject, d *Decision, away error) {
	for i := range c.checks {
		c.checks[i].Cost = s.cost
	}
	clear(c.results)
	*d = Decision{limiter: l, binding: -1, many: d.many[:0]}
	if away != nil {
		l.decideWithout(ctx, c, s, away, d)
		return
	}
	l.decideNow(ctx, c, s, d)
}

// atMost prepares a call for as many of n units as fit. It returns how many can ever fit, whether a denial counts
// towards a block, and the rules that are asked without their queues; nil if there are none.
func (c *call) atMost(n int64) (most int64, penalized bool, queued []*Rule) {
	c.exact = true
	most = n
	room := n // of the last choice
	for i, limit := range c.limits {
		check := &c.checks[i]
		check.Cost = n
		if check.Rule.Wait > 0 {
			if queued == nil {
				queued = make([]*Rule, len(c.checks))
			}
			queued[i] = check.Rule
			check.Rule = limit.unqueued(check.Rule)
		}
		penalized = penalized || check.Rule.Penalized()
		switch {
		case check.Shadow:
		case check.Or:
			room = max(room, check.Rule.Burst)
		default:
			most, room = min(most, room), check.Rule.Burst
		}
	}
	return min(most, room), penalized, queued
}

// fitting asks the store how many units fit, at least 1 and at most ask, without charging. If the
// store does not answer, that is ask: then the outage actions decide.
func (l *Limiter) fitting(ctx context.Context, c *call, ask int64) int64 {
	bounded := within(ctx, c.bound(l.timeout))
	defer bounded.release()
	if err := l.store.Peek(bounded, c.checks, c.results); err != nil {
		return ask
	}
	fits := ask
	for i := range c.results {
		switch r := &c.results[i]; {
		case c.checks[i].Shadow:
		case r.Blocked:
			fits = 0
		case !c.checks[i].Or:
			room := r.Remaining
			for k := i + 1; k < len(c.checks) && c.checks[k].Or; k++ {
				room = max(room, c.results[k].Remaining)
			}
			fits = min(fits, room)
		}
	}
	return max(fits, 1)
}

// fitting returns how many units fit under all enforced limits, by their results. current is false
// if some of these are not those of now.
func fitting(results []LimitResult) (fits int64, current bool) {
	fits, current = int64(1)<<62, true
	for i := range results {
		switch r := &results[i]; {
		case r.Shadow:
		case r.Blocked:
			fits = 0
		case !r.Or:
			room := r.Remaining
			for k := i + 1; k < len(results) && results[k].Or; k++ {
				room = max(room, results[k].Remaining)
			}
			fits, current = min(fits, room), current && !r.Cached
		}
	}
	return fits, current
}

// untilOneMore returns how long until one more unit fits under all enforced limits, after a charge.
func untilOneMore(results []LimitResult) (wait time.Duration) {
	for i := range results {
		if r := &results[i]; r.Enforced() && r.Remaining == 0 {
			wait = max(wait, r.Window)
		}
	}
	return wait
}
