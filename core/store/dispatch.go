package store

// Each function of this file calls the method of the rule's algorithm, the most frequent
// algorithm first. They are switches, and not calls through the table of algorithms: what
// a pointer given to an interface method points to escapes to the heap, which would cost
// each decision in memory an allocation. A test compares the switches with the table, so
// that no algorithm can be forgotten.

func (f Form) used(b *Bucket, now int64) (units, rest, unit int64) {
	switch f.Algorithm {
	case TokenBucket:
		return tokenBucket{}.used(f, b, now)
	case FixedWindow:
		return fixedWindow{}.used(f, b, now)
	case SlidingWindow:
		return slidingWindow{}.used(f, b, now)
	case SlidingLog:
		return slidingLog{}.used(f, b, now)
	case Calendar:
		return calendarWindow{}.used(f, b, now)
	case Concurrency:
		return concurrency{}.used(f, b, now)
	case Ledger:
		return ledger{}.used(f, b, now)
	}
	return 0, 0, 1
}

func (r *Rule) roll(b *Bucket, now, offset int64) {
	switch r.Algorithm {
	case TokenBucket:
		tokenBucket{}.roll(r, b, now, offset)
	case FixedWindow:
		fixedWindow{}.roll(r, b, now, offset)
	case SlidingWindow:
		slidingWindow{}.roll(r, b, now, offset)
	case SlidingLog:
		slidingLog{}.roll(r, b, now, offset)
	case Calendar:
		calendarWindow{}.roll(r, b, now, offset)
	case Concurrency:
		concurrency{}.roll(r, b, now, offset)
	case Ledger:
		ledger{}.roll(r, b, now, offset)
	}
}

func (r *Rule) bringBack(b *Bucket, now int64) bool {
	switch r.Algorithm {
	case TokenBucket:
		return tokenBucket{}.bringBack(r, b, now)
	case FixedWindow:
		return fixedWindow{}.bringBack(r, b, now)
	case SlidingWindow:
		return slidingWindow{}.bringBack(r, b, now)
	case SlidingLog:
		return slidingLog{}.bringBack(r, b, now)
	case Calendar:
		return calendarWindow{}.bringBack(r, b, now)
	case Concurrency:
		return concurrency{}.bringBack(r, b, now)
	case Ledger:
		return ledger{}.bringBack(r, b, now)
	}
	return false
}

// Read reads an opened bucket into reading. A sliding log's reading includes the wait for
// the given cost; other algorithms ignore it. Read sets At and the numbers that the
// algorithm uses, and leaves the other fields as they are. now is in microseconds since
// the epoch.
func (b *Bucket) Read(r *Rule, now, cost int64, reading *Reading) {
	reading.At = now
	n := &reading.Numbers
	switch r.Algorithm {
	case TokenBucket:
		tokenBucket{}.read(r, b, now, cost, n)
	case FixedWindow:
		fixedWindow{}.read(r, b, now, cost, n)
	case SlidingWindow:
		slidingWindow{}.read(r, b, now, cost, n)
	case SlidingLog:
		slidingLog{}.read(r, b, now, cost, n)
	case Calendar:
		calendarWindow{}.read(r, b, now, cost, n)
	case Concurrency:
		concurrency{}.read(r, b, now, cost, n)
	case Ledger:
		ledger{}.read(r, b, now, cost, n)
	}
}

// Charge charges an opened bucket with a cost that fits. now is in microseconds since the
// epoch.
func (b *Bucket) Charge(r *Rule, now, cost int64) {
	if cost == 0 {
		return
	}
	switch r.Algorithm {
	case TokenBucket:
		tokenBucket{}.charge(r, b, now, cost)
	case FixedWindow:
		fixedWindow{}.charge(r, b, now, cost)
	case SlidingWindow:
		slidingWindow{}.charge(r, b, now, cost)
	case SlidingLog:
		slidingLog{}.charge(r, b, now, cost)
	case Calendar:
		calendarWindow{}.charge(r, b, now, cost)
	case Concurrency:
		concurrency{}.charge(r, b, now, cost)
	case Ledger:
		ledger{}.charge(r, b, now, cost)
	}
}

func (r *Rule) refund(b *Bucket, now, cost, at int64) {
	switch r.Algorithm {
	case TokenBucket:
		tokenBucket{}.refund(r, b, now, cost, at)
	case FixedWindow:
		fixedWindow{}.refund(r, b, now, cost, at)
	case SlidingWindow:
		slidingWindow{}.refund(r, b, now, cost, at)
	case SlidingLog:
		slidingLog{}.refund(r, b, now, cost, at)
	case Calendar:
		calendarWindow{}.refund(r, b, now, cost, at)
	case Concurrency:
		concurrency{}.refund(r, b, now, cost, at)
	case Ledger:
		ledger{}.refund(r, b, now, cost, at)
	}
}

func (r *Rule) remaining(n *[4]int64) int64 {
	switch r.Algorithm {
	case TokenBucket:
		return tokenBucket{}.remaining(r, n)
	case FixedWindow:
		return fixedWindow{}.remaining(r, n)
	case SlidingWindow:
		return slidingWindow{}.remaining(r, n)
	case SlidingLog:
		return slidingLog{}.remaining(r, n)
	case Calendar:
		return calendarWindow{}.remaining(r, n)
	case Concurrency:
		return concurrency{}.remaining(r, n)
	case Ledger:
		return ledger{}.remaining(r, n)
	}
	return 0
}

func (r *Rule) wait(cost int64, n *[4]int64, one bool) int64 {
	switch r.Algorithm {
	case TokenBucket:
		return tokenBucket{}.wait(r, cost, n, one)
	case FixedWindow:
		return fixedWindow{}.wait(r, cost, n, one)
	case SlidingWindow:
		return slidingWindow{}.wait(r, cost, n, one)
	case SlidingLog:
		return slidingLog{}.wait(r, cost, n, one)
	case Calendar:
		return calendarWindow{}.wait(r, cost, n, one)
	case Concurrency:
		return concurrency{}.wait(r, cost, n, one)
	case Ledger:
		return ledger{}.wait(r, cost, n, one)
	}
	return 0
}

func (r *Rule) emptyAfter(n *[4]int64) int64 {
	switch r.Algorithm {
	case TokenBucket:
		return tokenBucket{}.emptyAfter(r, n)
	case FixedWindow:
		return fixedWindow{}.emptyAfter(r, n)
	case SlidingWindow:
		return slidingWindow{}.emptyAfter(r, n)
	case SlidingLog:
		return slidingLog{}.emptyAfter(r, n)
	case Calendar:
		return calendarWindow{}.emptyAfter(r, n)
	case Concurrency:
		return concurrency{}.emptyAfter(r, n)
	case Ledger:
		return ledger{}.emptyAfter(r, n)
	}
	return 0
}
