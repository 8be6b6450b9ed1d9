//go:build moving

package store

import (
	"cmp"
	"slices"
	"time"
)

// A limit of requests at the same time keeps what a sliding log does: entries of
// when and how many, which expire one window, here the lease, later. What differs
// is who ends them: the one who took a slot gives it back, or renews it. An entry
// is named by its time, and those who took slots at one time can't be told apart,
// nor need they be.

const (
	// defaultLease is how long a slot is held that nobody gives back.
	defaultLease = time.Minute

	// Shorter leases would run out between renewals, longer ones lock out for as
	// long after a crash.
	minLease = time.Second
	maxLease = 24 * time.Hour

	// slotRetry is what a denied request is told to wait, since nobody knows when
	// a slot becomes free.
	slotRetry = time.Second
)

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
	l := Per(n, defaultLease)
	l.algorithm, l.concurrent = Concurrency, true
	return l
}

// Lease sets how long a slot of a [Concurrent] limit is held that is neither given
// back nor renewed: until then a process that dies keeps its slots. Whoever runs a
// request renews its slots every third of the lease, so a request may take as long
// as it wants. At least 1s and at most 24h. Defaults to a minute.
func (l Limit) Lease(d time.Duration) Limit {
	l.window, l.hasLease = d, true
	return l
}

func (r *Rule) readSlots(b *bucket, now int64, n *[4]int64) {
	n[0], n[1] = b.x, 0
	if last := len(b.log) - 1; last >= 0 {
		n[1] = b.log[last].at + r.scale.Unit - now
	}
}

// slotsAt returns the time of the entry that slots were charged to, for a reading
// after the charge: the clock may have been set back behind the latest.
func (r *Rule) slotsAt(reading *Reading) int64 {
	return reading.At + max(reading.Numbers[1]-r.scale.Unit, 0)
}

// freeSlots gives back up to cost slots of the entry of a time. One that is not
// there was given back before, or its lease is over.
func (r *Rule) freeSlots(b *bucket, cost, at int64) {
	i, found := slices.BinarySearchFunc(b.log, at, func(e logEntry, at int64) int { return cmp.Compare(e.at, at) })
	if found {
		r.takeFromLog(b, i, cost)
	}
}

// renewSlots moves slots to now. Those whose lease is over are taken again: the
// request that holds them runs, whether they are free or not.
func (r *Rule) renewSlots(b *bucket, now, cost, at int64) {
	r.freeSlots(b, cost, at)
	r.chargeAnyway(b, now, cost)
}
