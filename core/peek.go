package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Peek returns what AllowKey would decide, and charges nothing. A request that a token bucket with
// [Limit.Wait] would let through after a wait is Allowed here; how long the wait would be is not
// said, so RetryAfter and Delay are 0. A denial does not count towards a
// block of [Limit.Penalty]. Observers don't hear of it.
func (l *Limiter) Peek(ctx context.Context, key string, cost int64) (Decision, error) {
	l = l.now()
	if cost < 0 {
		return Decision{}, fmt.Errorf("weblimit: cost must not be negative, got %d", cost)
	}
	if l.remote != nil {
		return l.peekRemotely(ctx, question{Key: key, Cost: cost, Peek: true})
	}
	c := l.callFor(ctx, key, cost)
	defer c.release()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.store.Peek(ctx, c.checks, c.results); err != nil {
		return Decision{}, err
	}
	d := Decision{limiter: l, binding: -1}
	d.sumUp(ctx, c)
	return d, nil
}

// PeekRequest returns what Allow would say to a request of this cost, and charges nothing: the limits that apply to
// it, for its keys, at the numbers of its tiers and classes. The cost takes the place of that of each limit, and functions of
// [Limit.CostBy] are not asked. With a cost of 0 every limit has room. What Peek says of waits, blocks and observers holds here.
//
// A request that lacks a key is denied as by Allow, or counted with others that lack it. One that Config.Bypass lets through
// has [ReasonBypassed] and no results. The error is that of the store, which was asked once, within Config.Timeout: nothing is
// decided in its place.
func (l *Limiter) PeekRequest(r keyfuncs.Request, cost int64) (Decision, error) {
	return l.peekRequest(r, cost, nil)
}

// peekRequest is PeekRequest. keyed, unless it is nil, is told the key of each result whose key is a user, a tenant or an API
// key: others may be shared by clients. A key is valid during the call only.
func (l *Limiter) peekRequest(r keyfuncs.Request, cost int64, keyed func(result int, key []byte)) (Decision, error) {
	l = l.now()
	if cost < 0 {
		return Decision{}, fmt.Errorf("weblimit: cost must not be negative, got %d", cost)
	}
	d := Decision{limiter: l, binding: -1}
	if len(l.bypass) > 0 && l.bypasses(r) {
		d.Allowed, d.Reason = true, ReasonBypassed
		return d, nil
	}
	if l.remote != nil {
		return l.peekRemotely(r.Context(), question{Request: r, Cost: cost, Peek: true})
	}
	c := calls.Get().(*call)
	defer c.release()
	if !l.askAll(c, subject{request: r, batch: true}, &d) {
		return d, nil
	}
	for i, limit := range c.limits {
		c.checks[i].Cost = limit.capped(cost, c.checks[i].Rule)
	}
	if len(c.checks) > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), l.timeout)
		defer cancel()
		if err := l.store.Peek(ctx, c.checks, c.results); err != nil {
			return Decision{}, err
		}
	}
	d.sumUp(r.Context(), c)
	for i, limit := range c.limits {
		if key := c.checks[i].Key; keyed != nil && string(key) != missingKey && isPersonal(limit.key.Kind()) {
			keyed(i, key)
		}
	}
	return d, nil
}

// Reset forgets what key has used under all limits of the limiter, and ends its blocks. It is no
// error if nothing is known of the key.
//
// It is in force at once for this process, and for all that share the store. One exception: other
// processes on Redis may repeat a denial of the key, for a round trip or so if their stores hear what
// is given back, else for up to redisstore.DenialCache.Age, a second by default. The same holds for
// what a request gives back, as by [Limit.RefundOn].
//
// key is the whole key as a limit counts it. Of a limit with several, such as
// By(keyfuncs.User("user"), keyfuncs.Route()), it is the joined key of one route, and the user
// alone has no bucket:
//
//	keyfuncs.EncodeJoin(keyfuncs.Encode("user", "42"), keyfuncs.Encode("route", "/orders/:id"))
func (l *Limiter) Reset(ctx context.Context, key string) error {
	l = l.now()
	c := l.callFor(ctx, key, 0)
	defer c.release()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return errors.Join(l.store.Reset(ctx, c.checks), l.shared.local.Reset(ctx, c.checks))
}
