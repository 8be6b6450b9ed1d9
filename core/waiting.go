package core

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// DefaultMaxWaiting is how many requests of a limiter wait at a time unless told otherwise.
const DefaultMaxWaiting = 1024

// maxWait bounds how long a request may be held.
const maxWait = time.Hour

// LeakyBucket lets requests through at an even pace, one after the other: one that
// comes too early waits for its turn, and is denied at once if that would take
// longer than most. It is a token bucket of burst 1, or that of [Limit.Burst], whose
// requests wait; see [Limit.Wait].
func (l Limit) LeakyBucket(most time.Duration) Limit {
	l.numbers.Algorithm, l.wait = store.TokenBucket, most
	if !l.numbers.hasBurst {
		l.numbers.Burst, l.numbers.hasBurst = 1, true
	}
	return l
}

// Wait holds requests that come too early until it is their turn, at most for so
// long, and denies at once those that would have to wait longer. Handlers run
// later, and adapters and [Limiter.AllowKey] return later; [Decision.Delay] says by
// how much.
//
// A token bucket queues: the store gives each request its turn when it decides,
// first come, first served, over all processes, at the pace of the limit. A client
// that hangs up, or a context that ends, gives its place up, with [ReasonCanceled]:
// to the next request in this process that asks for the same, or within a second to
// all who come later. Limits of other algorithms ask again when there
// should be room, and whoever asks first then gets it: those of requests at the same
// time when this process gives a slot back, and for slots of others every 10 to 250
// milliseconds, or one every 25 of many that wait with the same key.
//
// A token bucket that queues can't have a part reserved by [Limit.Reserve]: those
// who queue for theirs would be in front of those for whom the rest is kept.
// Only a token bucket can have a [Limit.Penalty] as well. Nobody waits for the end
// of a block.
//
// Config.MaxWaiting bounds how many requests wait, and Config.MaxWaitingPerKey how
// many of one key. A waiting request holds a goroutine and its connection, so keep
// the wait short. At most one hour.
func (l Limit) Wait(most time.Duration) Limit {
	l.wait = most
	return l
}

// Delay returns how long after the charge it is the request's turn, under a limit
// that lets requests wait: 0 if it was its turn at once.
func (r *LimitResult) Delay() time.Duration {
	if r.Rule.Wait == 0 || !r.Charged {
		return 0
	}
	return max(r.ResetAfter-r.Rule.DrainTime(), 0)
}

// Delay returns how long the request waited for its turn, or 0.
func (d *Decision) Delay() time.Duration {
	if d.held == nil {
		return 0
	}
	return d.held.delayed
}
