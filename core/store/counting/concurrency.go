package counting

import (
	"cmp"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// A concurrency limit keeps the log of a sliding log: each entry is a number of slots that
// were taken at one time, and expires one lease later. The difference is that a request
// gives its slots back, or renews their lease. The time identifies an entry. Requests that
// took slots in the same microsecond share one, which is no problem since any of their
// slots are alike.

const (
	// slotRetry is the RetryAfter of a denied request. It is only a hint, since nobody
	// knows when a slot becomes free.
	slotRetry = time.Second
)

// concurrency is a sliding log of slots.
type concurrency struct{ slidingLog }

func (concurrency) refund(r *store.Rule, b *Bucket, _, cost, at int64) { b.freeSlots(r, cost, at) }

func (concurrency) wait(r *store.Rule, cost int64, n *[4]int64, _ bool) int64 {
	if cost <= r.Burst-n[0] {
		return 0
	}
	return slotRetry.Microseconds()
}

func (concurrency) emptyAfter(_ *store.Rule, n *[4]int64) int64 { return n[1] }

func (concurrency) read(r *store.Rule, b *Bucket, now, _ int64, n *[4]int64) {
	n[0], n[1] = b.X, 0
	if last := len(b.Log) - 1; last >= 0 {
		n[1] = b.Log[last].At + r.Integers.Unit - now
	}
}

// slotsAt returns the time of the entry that slots were charged to, from a reading after
// the charge. It is later than the reading if the clock was set back.
func (reading *Reading) slotsAt(r *store.Rule) int64 {
	return reading.At + max(reading.Numbers[1]-r.Integers.Unit, 0)
}

// freeSlots frees up to cost slots of the entry at a time. If there is no such entry, the
// slots were freed before, or their lease has ended.
func (b *Bucket) freeSlots(r *store.Rule, cost, at int64) {
	i, found := slices.BinarySearchFunc(b.Log, at, func(e Entry, at int64) int { return cmp.Compare(e.At, at) })
	if found {
		b.takeFromLog(r, i, cost)
	}
}

// renew starts the lease of cost slots anew, in an opened bucket of a concurrency rule:
// slots taken at the time at are now slots taken at now. Slots whose lease has ended are
// taken again whether or not any are free, since their request is still running.
func (b *Bucket) renew(r *store.Rule, now, cost, at int64) {
	b.freeSlots(r, cost, at)
	b.ChargeAnyway(r, now, cost)
}
