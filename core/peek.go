package core

import (
	"context"
	"errors"
	"fmt"
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
		return l.peekRemotely(ctx, key, cost)
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
