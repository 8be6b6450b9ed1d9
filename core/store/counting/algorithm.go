package counting

import "github.com/weblimit/weblimit/core/store"

// The numbers of other records in stores, which share the numbers of algorithms. No limit
// can use them. They are part of what Redis stores: their values never change.
const (
	PenaltyRecord store.Algorithm = 6  // a Penalty
	MarkRecord    store.Algorithm = 7  // a Mark
	ManualRecord  store.Algorithm = 10 // a ManualBlock
	ShareRecord   store.Algorithm = 11 // a Division, or a Part of one
)

// LastAlgorithm is the highest number of an algorithm or another record.
const LastAlgorithm = ShareRecord

// algorithms holds the implementation of each algorithm by its number.
var algorithms = [LastAlgorithm + 1]counting{
	store.TokenBucket:   tokenBucket{},
	store.FixedWindow:   fixedWindow{},
	store.SlidingWindow: slidingWindow{},
	store.SlidingLog:    slidingLog{},
	store.Calendar:      calendarWindow{},
	store.Concurrency:   concurrency{},
	store.Ledger:        ledger{},
}

// counting is the implementation of an algorithm: a type without fields, in a file of its
// own. b is a bucket of the rule's [Form], and n are the numbers of a [Reading] of it. All
// times are microseconds since the epoch.
type counting interface {
	// used returns the units that the bucket counts as used: units + rest/unit. The bucket
	// may have been written under another rule, whose form is f.
	used(f Form, b *Bucket, now int64) (units, rest, unit int64)

	// roll moves the bucket's windows on to now. In an unused bucket it begins one.
	roll(r *store.Rule, b *Bucket, now, offset int64)

	// bringBack has a bucket end as if it was written at now, and keeps what is used. It is given one that
	// expires further after the present than Integers.Ahead, and so was written before the clock was set
	// back. It reports whether it has changed the bucket.
	bringBack(r *store.Rule, b *Bucket, now int64) bool

	// read sets the numbers of a reading of a bucket that was rolled.
	read(r *store.Rule, b *Bucket, now, cost int64, n *[4]int64)

	// charge adds a cost that fits. refund takes back a cost that was charged at a time.
	charge(r *store.Rule, b *Bucket, now, cost int64)
	refund(r *store.Rule, b *Bucket, now, cost, at int64)

	// remaining returns the units left; it is negative if more than the burst is used.
	remaining(r *store.Rule, n *[4]int64) int64

	// wait returns the microseconds until cost, at most the burst, fits: 0 if it fits now.
	// one asks for the wait of one unit: a log's reading holds that beside the wait for
	// the cost it was read for, and a token bucket leaves out its queue.
	wait(r *store.Rule, cost int64, n *[4]int64, one bool) int64

	// emptyAfter returns the microseconds until the bucket is unused.
	emptyAfter(r *store.Rule, n *[4]int64) int64
}

// Algorithms returns all algorithms, in the order of their numbers.
func Algorithms() []store.Algorithm {
	var all []store.Algorithm
	for a := range LastAlgorithm + 1 {
		if algorithms[a] != nil {
			all = append(all, a)
		}
	}
	return all
}

// IsLog reports whether an algorithm's buckets use Bucket.Log.
func IsLog(a store.Algorithm) bool { return a == store.SlidingLog || a == store.Concurrency }
