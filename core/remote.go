package core

import (
	"context"
	"math"
	"time"
)

// askRemotely has somebody else decide. The limits of the configuration decide while that one does not answer.
func (l *Limiter) askRemotely(ask remote) {
	l.remote = ask
	l.headers.policy, l.headers.varies = "", true // the rules are those of each answer
	l.readsOutcome = true                         // what that one settles may depend on it
}

// decideRemotely has somebody else decide, or decides by the outage actions of the limiter's own
// limits if there is no answer. Of a batch it returns how many units are granted.
func (l *Limiter) decideRemotely(ctx context.Context, c *call, s subject, d *Decision) (granted int64) {
	began := l.shared.now()
	v, err := l.remote(ctx, question{Request: s.request, Key: s.key, Cost: s.cost, AtMost: s.batch})
	if l.observers != nil {
		c.measured(l.shared, began)
	}
	if err == nil {
		l.shared.Answered()
		d.adopt(ctx, &v)
		if v.Delay > 0 && d.Allowed {
			l.holdRemotely(ctx, c, &v, d)
		}
		return v.Granted
	}
	if s.request == nil {
		l.askKey(ctx, c, s.key, s.cost)
	} else if !l.askAll(c, s, d) {
		return 0
	}
	l.shared.Failed(err)
	if s.batch {
		return l.decideAtMost(ctx, c, s, d, err)
	}
	l.decideWithout(ctx, c, s, err, d)
	return 0
}

// holdRemotely holds a request until its turn, which the answer has set.
func (l *Limiter) holdRemotely(ctx context.Context, c *call, v *verdict, d *Decision) {
	began := time.Now()
	inTime := sleep(ctx, v.Delay, nil)
	c.waitTime += time.Since(began)
	d.held.began = time.Now()
	switch {
	case !inTime:
		d.Allowed, d.Reason, d.RetryAfter = false, ReasonCanceled, 0
		left := d.held
		d.held = d.limiter.adopted(ctx, v)
		left.cancel()
	case d.Reason == ReasonWithinLimit:
		d.Reason = ReasonDelayed
	}
}

// adopt makes d the decision that somebody else has made.
func (d *Decision) adopt(ctx context.Context, v *verdict) {
	d.count = int16(min(len(v.Results), 1<<14))
	if d.count > 1 {
		d.many = v.Results[:d.count:d.count]
	} else if d.count == 1 {
		d.one[0] = v.Results[0]
	}
	d.conclude()
	d.Allowed, d.Reason, d.RetryAfter, d.Err = v.Allowed, v.Reason, v.RetryAfter, v.Err
	if v.What != "" {
		d.what = missingOf(v.What, v.Challenge)
	}
	d.held = d.limiter.adopted(ctx, v)
	for i := range min(len(v.Classes), int(d.count), math.MaxUint8) {
		if v.Classes[i] != "" {
			d.Results()[i].class = uint8(i + 1)
		}
	}
	if v.Held != nil {
		d.held.follow(v)
	}
}

// adopted returns a reservation for what a decision of somebody else says beside its results.
func (l *Limiter) adopted(ctx context.Context, v *verdict) *reservation {
	return &reservation{
		limiter: l, shared: l.shared, outer: reservationIn(ctx),
		began: time.Now(), delayed: v.Delay, elsewhere: &elsewhere{status: v.Status, version: v.Version, classes: v.Classes},
	}
}

// peekRemotely is Peek, or PeekRequest, by somebody else.
func (l *Limiter) peekRemotely(ctx context.Context, q question) (Decision, error) {
	d := Decision{limiter: l, binding: -1}
	v, err := l.remote(ctx, q)
	if err != nil {
		return Decision{}, err
	}
	d.adopt(ctx, &v)
	return d, nil
}
