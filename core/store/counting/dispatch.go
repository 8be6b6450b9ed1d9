package counting

import "github.com/weblimit/weblimit/core/store"

// Each function of this file calls the method of the rule's algorithm, the most frequent
// algorithm first. They are switches, and not calls through the table of algorithms: what
// a pointer given to an interface method points to escapes to the heap, which would cost
// each decision in memory an allocation. A test compares the switches with the table, so
// that no algorithm can be forgotten.

func (f Form) used(b *Bucket, now int64) (units, rest, unit int64) {
	switch f.Algorithm {
	case store.TokenBucket:
		return tokenBucket{}.used(f, b, now)
	case store.FixedWindow:
		return fixedWindow{}.used(f, b, now)
	case store.SlidingWindow:
		return slidingWindow{}.used(f, b, now)
	case store.SlidingLog:
		return slidingLog{}.used(f, b, now)
	case store.Calendar:
		return calendarWindow{}.used(f, b, now)
	case store.Concurrency:
		return concurrency{}.used(f, b, now)
	case store.Ledger:
		return ledger{}.used(f, b, now)
	}
	return 0, 0, 1
}

func (b *Bucket) roll(r *store.Rule, now, offset int64) {
	switch r.Algorithm {
	case store.TokenBucket:
		tokenBucket{}.roll(r, b, now, offset)
	case store.FixedWindow:
		fixedWindow{}.roll(r, b, now, offset)
	case store.SlidingWindow:
		slidingWindow{}.roll(r, b, now, offset)
	case store.SlidingLog:
		slidingLog{}.roll(r, b, now, offset)
	case store.Calendar:
		calendarWindow{}.roll(r, b, now, offset)
	case store.Concurrency:
		concurrency{}.roll(r, b, now, offset)
	case store.Ledger:
		ledger{}.roll(r, b, now, offset)
	}
}

func (b *Bucket) bringBack(r *store.Rule, now int64) bool {
	switch r.Algorithm {
	case store.TokenBucket:
		return tokenBucket{}.bringBack(r, b, now)
	case store.FixedWindow:
		return fixedWindow{}.bringBack(r, b, now)
	case store.SlidingWindow:
		return slidingWindow{}.bringBack(r, b, now)
	case store.SlidingLog:
		return slidingLog{}.bringBack(r, b, now)
	case store.Calendar:
		return calendarWindow{}.bringBack(r, b, now)
	case store.Concurrency:
		return concurrency{}.bringBack(r, b, now)
	case store.Ledger:
		return ledger{}.bringBack(r, b, now)
	}
	return false
}

// Read reads an opened bucket into reading. A sliding log's reading includes the wait for
// the given cost; other algorithms ignore it. Read sets At and the numbers that the
// algorithm uses, and leaves the other fields as they are. now is in microseconds since
// the epoch.
func (b *Bucket) Read(r *store.Rule, now, cost int64, reading *Reading) {
	reading.At = now
	n := &reading.Numbers
	switch r.Algorithm {
	case store.TokenBucket:
		tokenBucket{}.read(r, b, now, cost, n)
	case store.FixedWindow:
		fixedWindow{}.read(r, b, now, cost, n)
	case store.SlidingWindow:
		slidingWindow{}.read(r, b, now, cost, n)
	case store.SlidingLog:
		slidingLog{}.read(r, b, now, cost, n)
	case store.Calendar:
		calendarWindow{}.read(r, b, now, cost, n)
	case store.Concurrency:
		concurrency{}.read(r, b, now, cost, n)
	case store.Ledger:
		ledger{}.read(r, b, now, cost, n)
	}
}

// charge charges an opened bucket with a cost that fits. now is in microseconds since the
// epoch.
func (b *Bucket) charge(r *store.Rule, now, cost int64) {
	if cost == 0 {
		return
	}
	switch r.Algorithm {
	case store.TokenBucket:
		tokenBucket{}.charge(r, b, now, cost)
	case store.FixedWindow:
		fixedWindow{}.charge(r, b, now, cost)
	case store.SlidingWindow:
		slidingWindow{}.charge(r, b, now, cost)
	case store.SlidingLog:
		slidingLog{}.charge(r, b, now, cost)
	case store.Calendar:
		calendarWindow{}.charge(r, b, now, cost)
	case store.Concurrency:
		concurrency{}.charge(r, b, now, cost)
	case store.Ledger:
		ledger{}.charge(r, b, now, cost)
	}
}

// refund gives back a cost to an opened bucket, less what time has returned since the
// charge. at is [ChargedAt] of the charge.
func (b *Bucket) refund(r *store.Rule, now, cost, at int64) {
	if b.Expires == 0 {
		return
	}
	switch r.Algorithm {
	case store.TokenBucket:
		tokenBucket{}.refund(r, b, now, cost, at)
	case store.FixedWindow:
		fixedWindow{}.refund(r, b, now, cost, at)
	case store.SlidingWindow:
		slidingWindow{}.refund(r, b, now, cost, at)
	case store.SlidingLog:
		slidingLog{}.refund(r, b, now, cost, at)
	case store.Calendar:
		calendarWindow{}.refund(r, b, now, cost, at)
	case store.Concurrency:
		concurrency{}.refund(r, b, now, cost, at)
	case store.Ledger:
		ledger{}.refund(r, b, now, cost, at)
	}
}

func remaining(r *store.Rule, n *[4]int64) int64 {
	switch r.Algorithm {
	case store.TokenBucket:
		return tokenBucket{}.remaining(r, n)
	case store.FixedWindow:
		return fixedWindow{}.remaining(r, n)
	case store.SlidingWindow:
		return slidingWindow{}.remaining(r, n)
	case store.SlidingLog:
		return slidingLog{}.remaining(r, n)
	case store.Calendar:
		return calendarWindow{}.remaining(r, n)
	case store.Concurrency:
		return concurrency{}.remaining(r, n)
	case store.Ledger:
		return ledger{}.remaining(r, n)
	}
	return 0
}

func waitFor(r *store.Rule, cost int64, n *[4]int64, one bool) int64 {
	switch r.Algorithm {
	case store.TokenBucket:
		return tokenBucket{}.wait(r, cost, n, one)
	case store.FixedWindow:
		return fixedWindow{}.wait(r, cost, n, one)
	case store.SlidingWindow:
		return slidingWindow{}.wait(r, cost, n, one)
	case store.SlidingLog:
		return slidingLog{}.wait(r, cost, n, one)
	case store.Calendar:
		return calendarWindow{}.wait(r, cost, n, one)
	case store.Concurrency:
		return concurrency{}.wait(r, cost, n, one)
	case store.Ledger:
		return ledger{}.wait(r, cost, n, one)
	}
	return 0
}

func emptyAfter(r *store.Rule, n *[4]int64) int64 {
	switch r.Algorithm {
	case store.TokenBucket:
		return tokenBucket{}.emptyAfter(r, n)
	case store.FixedWindow:
		return fixedWindow{}.emptyAfter(r, n)
	case store.SlidingWindow:
		return slidingWindow{}.emptyAfter(r, n)
	case store.SlidingLog:
		return slidingLog{}.emptyAfter(r, n)
	case store.Calendar:
		return calendarWindow{}.emptyAfter(r, n)
	case store.Concurrency:
		return concurrency{}.emptyAfter(r, n)
	case store.Ledger:
		return ledger{}.emptyAfter(r, n)
	}
	return 0
}
