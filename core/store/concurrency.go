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
	// Shorter leases would run out between renewals, longer ones lock out for as
	// long after a crash.
	minLease = time.Second
	maxLease = 24 * time.Hour

	// slotRetry is what a denied request is told to wait, since nobody knows when
	// a slot becomes free.
	slotRetry = time.Second
)

// concurrency keeps a log of slots.
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
		n[1] = b.Log[last].At + r.scale.Unit - now
	}
}

// slotsAt returns the time of the entry that slots were charged to, for a reading
// after the charge: the clock may have been set back behind the latest.
func (r *Rule) slotsAt(reading *Reading) int64 {
	return reading.At + max(reading.Numbers[1]-r.scale.Unit, 0)
}

// freeSlots gives back up to cost slots of the entry of a time. One that is not
// there was given back before, or its lease is over.
func (r *Rule) freeSlots(b *Bucket, cost, at int64) {
	i, found := slices.BinarySearchFunc(b.Log, at, func(e Entry, at int64) int { return cmp.Compare(e.At, at) })
	if found {
		r.takeFromLog(b, i, cost)
	}
}

// Renew moves slots of an opened bucket, which go by the given time, to now. Those
// whose lease is over are taken again: the request that holds them runs, whether they
// are free or not.
func (b *Bucket) Renew(r *Rule, now, cost, at int64) {
	r.freeSlots(b, cost, at)
	b.ChargeAnyway(r, now, cost)
}
