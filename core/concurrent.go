package core

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// defaultLease is how long a slot is held that is neither given back nor renewed.
const defaultLease = time.Minute

// Concurrent makes a concurrency limit: for each key, it caps the requests that run at
// once at n, from 1 to 5000.
//
//	core.Concurrent(10).By(keyfuncs.User("userID")).Named("running")
//
// An allowed request takes one slot, or as many as its cost. Adapters give the slots
// back when the handler has ended in any way, and renew them while it runs; see
// [Limit.Lease]. Code that calls [Limiter.AllowKey] gives them back with
// [Decision.Settle]: a forgotten Settle holds its slots as long as the process holds the
// decision. The limit bounds running requests and not a rate; combine it with
// a limit that does.
//
// It is not known when the next slot becomes free. So RetryAfter is a hint of one
// second, and ResetAfter is when the last lease ends if no slot is given back or
// renewed. Denials are not cached and slots not prefetched, so that a free slot can be
// taken at once.
//
// With [Limit.Wait] requests wait for a slot. That helps clients that send one request
// after another, too: a slot is given back in the background, and the next request can
// be faster.
//
// A concurrency limit has no burst, no jitter and no other algorithm. During an outage
// with [Local], each process grants its share of the slots, whatever runs elsewhere.
func Concurrent(n int64) Limit {
	l := newLimit(store.Numbers{Algorithm: store.Concurrency, Quota: n, Window: defaultLease})
	l.numbers.concurrent = true
	return l
}

// Lease sets how long a slot of a [Concurrent] limit is held without being renewed. A
// slot is renewed every third of its lease while its request runs, so requests may take
// any time. The slots of a process that dies become free when their leases end. The
// lease is no safety net for a forgotten [Decision.Settle], since it is renewed. At
// least 1s and at most 24h, in whole microseconds. Defaults to a minute.
func (l Limit) Lease(d time.Duration) Limit {
	l.settings.set(setLease)
	l.numbers.Window, l.numbers.hasLease = d, true
	return l
}
