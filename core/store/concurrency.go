package store

import (
	"cmp"
	"slices"
	"time"
)

// A concurrency limit keeps the log of a sliding log: each entry is a number of slots that
// were taken at one time, and expires one lease later. The difference is that a request
// gives its slots back, or renews their lease. The time identifies an entry. Requests that
// took slots in the same microsecond share one, which is no problem since any of their
// slots are alike.

const (
	// A shorter lease would end between renewals. A longer one would keep slots taken for
	// too long after a crash.
	minLease = time.Second
	maxLease = 24 * time.Hour

	// slotRetry is the RetryAfter of a denied request. It is only a hint, since nobody
	// knows when a slot becomes free.
	slotRetry = time.Second
)

// concurrency is a sliding log of slots.
type concurrency struct{ slidingLog }

func (concurrency) name() string { return "concurrency" }

func (concurrency) refund(r *Rule, b *Bucket, _, cost, at int64) { r.freeSlots(b, cost, at) }

func (concurrency) wait(r *Rule, cost int64, n *[4]int64, _ bool) int64 {
	if cost <= r.Burst-n[0] {
		return 0
	}
	return slotRetry.Microseconds()
}

func (concurrency) emptyAfter(_ *Rule, n *[4]int64) int64 { return n[1] }

func (concurrency) read(r *Rule, b *Bucket, now, _ int64, n *[4]int64) {
	n[0], n[1] = b.X, 0
	if last := len(b.Log) - 1; last >= 0 {
		n[1] = b.Log[last].At + r.ints.Unit - now
	}
}

// slotsAt returns the time of the entry that slots were charged to, from a reading after
// the charge. It is later than the reading if the clock was set back.
func (r *Rule) slotsAt(reading *Reading) int64 {
	return reading.At + max(reading.Numbers[1]-r.ints.Unit, 0)
}

// freeSlots frees up to cost slots of the entry at a time. If there is no such entry, the
// slots were freed before, or their lease has ended.
func (r *Rule) freeSlots(b *Bucket, cost, at int64) {
	i, found := slices.BinarySearchFunc(b.Log, at, func(e Entry, at int64) int { return cmp.Compare(e.At, at) })
	if found {
		r.takeFromLog(b, i, cost)
	}
}

// Renew starts the lease of cost slots anew, in an opened bucket of a [Concurrency] rule:
// slots taken at the time at are now slots taken at now. Slots whose lease has ended are
// taken again whether or not any are free, since their request is still running.
func (b *Bucket) Renew(r *Rule, now, cost, at int64) {
	r.freeSlots(b, cost, at)
	b.ChargeAnyway(r, now, cost)
}
