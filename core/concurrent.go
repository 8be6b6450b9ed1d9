package core

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// defaultLease is how long a slot is held that nobody gives back.
const defaultLease = time.Minute

// Concurrent allows n requests of a key at the same time, 1 to 5000:
//
//	core.Concurrent(10).By(keyfuncs.User("userID")).Named("running")
//
// A request takes a slot, or as many as its cost, when it is allowed. Adapters give
// them back when the handler has ended, whatever became of it, and keep them while
// it takes longer than the lease; see [Limit.Lease]. Who asks with
// [Limiter.AllowKey] ends it with [Decision.Settle]. Nothing refills by itself: it is
// a limit on what is under way, and not on a rate, so combine it with one of those.
// With [Limit.Wait] requests queue for a slot, be it only the moment that the store
// takes to hear of one that is free: it is told in the background, so a client that
// sends its next request at once may be there first.
//
// When a slot becomes free nobody knows. A denial's RetryAfter is a hint of one
// second, and not a promise; ResetAfter is when the last lease ends, if nobody
// gives back or renews. No denial is repeated from a cache, and slots are not
// leased ahead of time, so that one that is free can be had at once.
//
// It has no burst, no jitter and no other algorithm. In an outage whose policy is
// [Local], each process grants its share of the slots by itself, whatever is
// running elsewhere.
func Concurrent(n int64) Limit {
	l := newLimit(store.Numbers{Algorithm: store.Concurrency, Quota: n, Window: defaultLease})
	l.numbers.concurrent = true
	return l
}

// Lease sets how long a slot of a [Concurrent] limit is held that is neither given
// back nor renewed: until then a process that dies keeps its slots. Whoever runs a
// request renews its slots every third of the lease, so a request may take as long
// as it wants. At least 1s and at most 24h. Defaults to a minute.
func (l Limit) Lease(d time.Duration) Limit {
	l.numbers.Window, l.numbers.hasLease = d, true
	return l
}
