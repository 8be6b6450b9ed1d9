package core

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// defaultMaxWaiting is how many requests of a limiter may wait at once if
// Config.MaxWaiting is 0.
const defaultMaxWaiting = 1024

// maxWait is the longest time that a request may wait.
const maxWait = time.Hour

// LeakyBucket lets requests through at an even pace. A request that comes too early
// waits for its turn, at most for maxDelay; if that is not enough it is denied at once.
// It is a token bucket of burst 1, or of [Limit.Burst], with [Limit.Wait].
func (l Limit) LeakyBucket(maxDelay time.Duration) Limit {
	l.settings.set(setLeaky)
	l.numbers.choose(store.TokenBucket)
	l.wait = maxDelay
	if !l.numbers.hasBurst {
		l.numbers.Burst, l.numbers.hasBurst = 1, true
	}
	return l
}

// Wait makes requests that come too early wait until the limit has room, at most for
// maxDelay and at most one hour. Requests that would have to wait longer are denied at
// once. Handlers start later, and [Limiter.AllowKey] returns later; [Decision.Delay]
// says by how much. A waiting request holds a goroutine and its connection, so keep the
// wait short, and well below the write timeout of the server: one that ends first, such as
// WriteTimeout of http.Server, closes the connection without a response. Config.MaxWaiting bounds how many requests wait at once, and
// Config.MaxWaitingPerKey how many of one key.
//
// Requests of a token bucket queue. The store gives each its turn when it decides: first
// come, first served, over all processes, at the pace of the limit. If a client hangs up
// or the context ends while it waits, the request is denied with [ReasonCanceled]. Its
// turn goes to the next request for the same in this process, or is given back within a
// second.
//
// Under other algorithms waiting requests ask again when there should be room, and the
// first to ask gets it. Under a [Concurrent] limit they ask when this process gives a
// slot back. For slots of other processes they ask every 10 to 250 ms; of many requests
// that wait with one key, one asks every 25 ms.
//
// With [Limit.Fair] they are served by the shares of their clients, and by class. Then a token bucket has no queue either, and those that
// are next ask when there should be room.
//
// A turn is fixed when the store decides. What running requests give back later, by
// [Limit.Estimate] or [Limit.RefundOn], does not bring it forward.
//
// A token bucket that queues can't have [Limit.KeepFree] without Fair: queued requests would be in
// front of those that it keeps room for. [Limit.Penalty] needs a token bucket, and no
// request waits for the end of a block.
func (l Limit) Wait(maxDelay time.Duration) Limit {
	l.settings.set(setWait)
	l.wait = maxDelay
	return l
}
