package store

// Algorithm is how a limit counts.
//
// All algorithms decide whether a cost still fits, but each has its own notion of the last
// window, and so admits a different number of units around the edge of a window. In any
// period as long as one window, an attacker gets at most:
//
//	TokenBucket    burst + quota   a full bucket, then the refill
//	FixedWindow    2 × quota       the end of one window and the start of the next
//	SlidingWindow  2 × quota       for uneven traffic; about quota for even traffic
//	SlidingLog     quota           exact
//	Calendar       2 × quota       the end of one month or day and the start of the next
//
// The windows of a Calendar differ in length. A period that is longer than one of them can hold
// all of it and both its edges: 3 × quota in 24 hours around a day of 23, or in 31 days around
// February. docs/choose/algorithms.md draws each bound.
//
// Ledger is a Calendar whose use is kept in a book outside the store, and has its bound. No limit
// is made with it: a wrapper that keeps a book derives it from a Calendar, by [Rule].Ledger. An
// account that the store does not know admits nothing: see [Result].Unknown.
//
// Concurrency does not count a rate but the requests that are running: never more than the
// quota at once, in any number one after the other.
type Algorithm uint8

// The algorithms. They are part of what Redis stores: their values never change.
const (
	TokenBucket   Algorithm = 1
	FixedWindow   Algorithm = 2
	SlidingWindow Algorithm = 3
	SlidingLog    Algorithm = 4
	Calendar      Algorithm = 5
	Concurrency   Algorithm = 8
	Ledger        Algorithm = 9
)

// The numbers of other records in stores, which share the numbers of algorithms. No limit
// can use them.
const (
	PenaltyRecord Algorithm = 6  // a Penalty
	MarkRecord    Algorithm = 7  // a Mark
	ManualRecord  Algorithm = 10 // a ManualBlock
)

// LastAlgorithm is the highest number of an algorithm or another record.
const LastAlgorithm = ManualRecord

// algorithms holds the implementation of each algorithm by its number.
var algorithms = [LastAlgorithm + 1]counting{
	TokenBucket:   tokenBucket{},
	FixedWindow:   fixedWindow{},
	SlidingWindow: slidingWindow{},
	SlidingLog:    slidingLog{},
	Calendar:      calendarWindow{},
	Concurrency:   concurrency{},
	Ledger:        ledger{},
}

// counting is the implementation of an algorithm: a type without fields, in a file of its
// own. b is a bucket of the rule's [Form], and n are the numbers of a [Reading] of it. All
// times are microseconds since the epoch.
type counting interface {
	name() string

	// integers converts the rule's numbers, with Whole as the capacity. NewRule adds the
	// queue, and reduces the capacity of a class that may use less.
	integers(r *Rule) (Integers, error)

	// used returns the units that the bucket counts as used: units + rest/unit. The bucket
	// may have been written under another rule, whose form is f.
	used(f Form, b *Bucket, now int64) (units, rest, unit int64)

	// roll moves the bucket's windows on to now. In an unused bucket it begins one.
	roll(r *Rule, b *Bucket, now, offset int64)

	// ahead returns how many microseconds after the present a bucket can expire at most. One that
	// expires later was written before the clock was set back, and is given to bringBack; 0 if
	// bringBack has to look itself. bringBack has the bucket end as if it was written at now, and
	// keeps what is used. It reports whether it has changed the bucket.
	ahead(r *Rule) int64
	bringBack(r *Rule, b *Bucket, now int64) bool

	// read sets the numbers of a reading of a bucket that was rolled.
	read(r *Rule, b *Bucket, now, cost int64, n *[4]int64)

	// charge adds a cost that fits. refund takes back a cost that was charged at a time.
	charge(r *Rule, b *Bucket, now, cost int64)
	refund(r *Rule, b *Bucket, now, cost, at int64)

	// remaining returns the units left; it is negative if more than the burst is used.
	remaining(r *Rule, n *[4]int64) int64

	// wait returns the microseconds until cost, at most the burst, fits: 0 if it fits now.
	// one asks for the wait of one unit: a log's reading holds that beside the wait for
	// the cost it was read for, and a token bucket leaves out its queue.
	wait(r *Rule, cost int64, n *[4]int64, one bool) int64

	// emptyAfter returns the microseconds until the bucket is unused.
	emptyAfter(r *Rule, n *[4]int64) int64
}

// Algorithms returns all algorithms, in the order of their numbers.
func Algorithms() []Algorithm {
	var all []Algorithm
	for a := range LastAlgorithm + 1 {
		if algorithms[a] != nil {
			all = append(all, a)
		}
	}
	return all
}

func (a Algorithm) valid() bool { return a <= LastAlgorithm && algorithms[a] != nil }

// IsLog reports whether the algorithm's buckets use Bucket.Log.
func (a Algorithm) IsLog() bool { return a == SlidingLog || a == Concurrency }

// String returns the algorithm's name, such as "token bucket".
func (a Algorithm) String() string {
	if !a.valid() {
		return "unknown algorithm"
	}
	return algorithms[a].name()
}

// MarshalText returns the text of String, so that logs in JSON have words and no numbers.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
