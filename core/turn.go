package core

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// How often a request that waits for a slot asks the store again. A slot that this process
// gives back wakes one request, but nobody knows when another process gives one back.
// Requests of one key ask one after the other: otherwise a client with many of them would cost
// the store as many calls each time.
const (
	minPoll   = 10 * time.Millisecond
	maxPoll   = 250 * time.Millisecond
	crowdPoll = 25 * time.Millisecond // from one request of a key to the next
)

// decideInTurn decides a request that may have to wait, and holds it until its turn.
func (l *Limiter) decideInTurn(ctx context.Context, c *call, s subject, d *Decision) {
	start := time.Now()
	var at place
	defer func() { l.waitlist.leave(at) }()
	if left := l.waitlist.takeOver(c); left != nil {
		at = left.place
		left.decide(ctx, c, d, start)
		if !l.hold(ctx, c, d, &at, start, left.turn, nil) {
			return
		}
	} else if rule, until := l.waitlist.full(c, start); rule != nil {
		d.denyPlace(rule, start, until)
		return
	} else if i := c.inLine(); i >= 0 {
		if !l.queueFairly(ctx, c, s, d, &at, start, i) {
			return
		}
	} else if !l.queue(ctx, c, s, d, &at, start) {
		return
	}
	if at.taken() && d.Allowed {
		if d.Reason == ReasonWithinLimit {
			d.Reason = ReasonDelayed
		}
		if d.held != nil {
			now := time.Now()
			d.held.delayed, d.held.began = now.Sub(start), now
		}
	}
}

// queue asks the store until nothing is left to wait for, and holds the request in between. It
// returns false if the request was turned away.
func (l *Limiter) queue(ctx context.Context, c *call, s subject, d *Decision, at *place, start time.Time) bool {
	asked := start
	for poll := minPoll; ; poll = min(2*poll, maxPoll) {
		l.decideNow(ctx, c, s, d)
		wait, again, because := d.turn(c, max(poll, time.Duration(l.waitlist.longestQueue(*at))*crowdPoll), time.Since(start))
		if wait == 0 {
			return true
		}
		turn := time.Now().Add(wait)
		if !at.taken() && !l.waitlist.join(at, c, because, turn) {
			d.turnAway(ReasonLimitExceeded, wait)
			return false
		}
		var freed <-chan struct{}
		if again {
			freed = l.waitlist.wakeup(*at)
		}
		if !l.hold(ctx, c, d, at, asked, turn, freed) {
			return false
		}
		if !again {
			return true
		}
		asked = time.Now()
		clear(c.results)
		*d = Decision{limiter: l, binding: -1, many: d.many[:0]}
	}
}

// hold keeps a request waiting until its turn, or until freed receives a value. It returns false
// if the request's context ended before; then another request may get its place. asked is
// when the store decided.
func (l *Limiter) hold(ctx context.Context, c *call, d *Decision, at *place, asked, turn time.Time, freed <-chan struct{}) bool {
	began := time.Now()
	inTime := sleep(ctx, time.Until(turn), freed)
	c.waitTime += time.Since(began)
	if inTime {
		return true
	}
	if l.waitlist.abandon(*at, c, d.held, asked, turn) {
		*at, d.held = place{}, nil
	}
	d.turnAway(ReasonCanceled, 0)
	return false
}

// turn returns how long a request has to wait, whether the store is asked again then, and which
// checks are the reason. wait is 0 if there is nothing to wait for. waited is how long the
// request has waited already, and poll how long it waits if nobody knows when to ask again.
func (d *Decision) turn(c *call, poll, waited time.Duration) (wait time.Duration, again bool, because []int) {
	results := d.Results()
	if len(results) != len(c.limits)+len(c.refused) {
		return 0, false, nil // decided by other limits, such as those of Config.Fallback
	}
	results = results[:len(c.limits)] // the rest are limits in shadow mode
	if d.Allowed {
		for i := range results {
			if !results[i].Enforced() {
				continue
			}
			if delay := max(results[i].Turn, c.limits[i].slow.delay(&results[i])); delay > 0 {
				wait, because = max(wait, delay), append(because, i)
			}
		}
		return wait, false, because
	}
	if d.Reason != ReasonLimitExceeded && d.Reason != ReasonCachedDenial {
		return 0, false, nil
	}
	for i := range results {
		r := &results[i]
		if r.Allowed || !r.Enforced() {
			continue
		}
		if r.Blocked {
			return 0, false, nil // nobody waits for the end of a block
		}
		after := r.RetryAfter
		if r.Rule.Algorithm == store.Concurrency {
			after = min(poll, max(c.limits[i].wait-waited, 0)) // asks once more when the time is up
		}
		if after == 0 || r.Rule.Wait > 0 || waited+after > c.limits[i].wait {
			return 0, false, nil
		}
		wait, because = max(wait, after), append(because, i)
	}
	return wait, true, because
}

// denyPlace denies a request for which no place is free before until, without asking the store.
func (d *Decision) denyPlace(rule *Rule, now, until time.Time) {
	d.Reason, d.count = ReasonLimitExceeded, 1
	d.one[0].Rule = rule
	wait := max(until.Sub(now), time.Microsecond)
	d.one[0].Result = Result{RetryAfter: wait, Window: wait, ResetAfter: wait, At: now.UnixMicro()}
	d.binding, d.RetryAfter = 0, wait
}

// turnAway denies a request instead of letting it wait, and gives back what it was charged.
func (d *Decision) turnAway(reason Reason, after time.Duration) {
	if d.held != nil {
		d.held.cancel()
		d.held = nil
	}
	d.Allowed, d.Reason, d.RetryAfter = false, reason, after
}

// sleep waits for d, or until early receives a value. It returns false if the context ended
// before.
func sleep(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-early:
		return true
	case <-ctx.Done():
		return false
	}
}
