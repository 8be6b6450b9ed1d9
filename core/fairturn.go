package core

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// queueFairly is queue for a request of which the i-th limit has Fair. It asks the store at first, unless others wait,
// and then only when it is called.
func (l *Limiter) queueFairly(ctx context.Context, c *call, s subject, d *Decision, at *place, start time.Time, i int) bool {
	ends := start.Add(c.limits[i].wait)
	if l.waitlist.occupied(c, i) {
		if !l.waitlist.joinLine(at, c, i, nil) {
			d.denyInLine(c.checks[i].Rule)
			return false
		}
		if !l.stand(ctx, c, d, at, ends) {
			return false
		}
	}
	asked := time.Now()
	for poll := minPoll; ; poll = min(2*poll, maxPoll) {
		l.decideNow(ctx, c, s, d)
		wait, again, because := d.turn(c, max(poll, time.Duration(l.waitlist.longestQueue(*at))*crowdPoll), time.Since(start))
		if wait == 0 || !again {
			l.waitlist.ended(at, d, i)
		}
		if wait == 0 {
			return true
		}
		turn := time.Now().Add(wait)
		if denied := &d.Results()[i]; again && len(because) == 1 && because[0] == i {
			if at.waiter != nil {
				l.waitlist.denied(at.waiter, denied)
			} else if !l.waitlist.joinLine(at, c, i, denied) {
				d.turnAway(ReasonLimitExceeded, wait)
				return false
			}
			if !l.stand(ctx, c, d, at, ends) {
				return false
			}
		} else {
			if !at.taken() && !l.waitlist.join(at, c, because, turn) {
				d.turnAway(ReasonLimitExceeded, wait)
				return false
			}
			l.waitlist.stepAside(at.waiter)
			if !l.hold(ctx, c, d, at, asked, turn, nil) {
				return false
			}
			if !again {
				return true
			}
			if at.waiter != nil {
				if l.waitlist.back(at.waiter); !l.stand(ctx, c, d, at, ends) {
					return false
				}
			}
		}
		asked = time.Now()
		clear(c.results)
		*d = Decision{limiter: l, binding: -1, many: d.many[:0]}
	}
}

// stand keeps a request waiting until it is called to ask the store. It returns false if it is denied: its time is up, another got
// its place, or its context has ended.
func (l *Limiter) stand(ctx context.Context, c *call, d *Decision, at *place, ends time.Time) bool {
	w := at.waiter
	began := time.Now()
	inTime := sleep(ctx, time.Until(ends), w.called)
	c.waitTime += time.Since(began)
	switch {
	case !inTime:
		d.turnAway(ReasonCanceled, 0)
		return false
	case l.waitlist.mayAsk(w):
		return true
	case len(d.Results()) == 0:
		d.denyInLine(w.rule)
	}
	return false
}

// denyInLine denies a request that waited in a line, or found no place in it, and never asked the store.
func (d *Decision) denyInLine(rule *Rule) {
	now := time.Now()
	wait := time.Second // as the store says of slots
	if rule.Algorithm != store.Concurrency {
		wait = min(rule.Window, time.Second)
	}
	d.denyPlace(rule, now, now.Add(wait))
}
