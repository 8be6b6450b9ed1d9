package store

// Algorithm is how a limit counts.
//
// Each one answers the same question, whether a cost still fits, with another
// idea of "the last window", and so admits a different number of units around
// the edge of a window. Measured over any stretch of one window's length, an
// attacker gets at most:
//
//	TokenBucket    burst + quota   a full bucket, then the refill
//	FixedWindow    2 × quota       the end of one window and the start of the next
//	SlidingWindow  2 × quota       only for traffic that the estimate mistakes; about quota for even traffic
//	SlidingLog     quota           exact
//	Calendar       2 × quota       the end of one month or day and the start of the next
//
// Concurrency counts requests under way and not a rate: it admits any number of
// them one after the other, and never more than its quota at once.
type Algorithm uint8

// The algorithms. They are part of what Redis stores: their values never change.
const (
	TokenBucket   Algorithm = 1
	FixedWindow   Algorithm = 2
	SlidingWindow Algorithm = 3
	SlidingLog    Algorithm = 4
	Calendar      Algorithm = 5
	Concurrency   Algorithm = 8
)

// What stores keep beside the records of algorithms, and number as if it were of one.
// No limit counts by them.
const (
	PenaltyRecord Algorithm = 6 // the denials and blocks of a key: see Penalty
	MarkRecord    Algorithm = 7 // an operation that was charged: see Check.Once
)

// LastAlgorithm is the highest number that an algorithm, or another record, has.
const LastAlgorithm = Concurrency

// algorithms has each algorithm's part of this package, by its number.
var algorithms = [LastAlgorithm + 1]counting{
	TokenBucket:   tokenBucket{},
	FixedWindow:   fixedWindow{},
	SlidingWindow: slidingWindow{},
	SlidingLog:    slidingLog{},
	Calendar:      calendarWindow{},
	Concurrency:   concurrency{},
}

// counting is an algorithm: each is a type without fields in a file of its own. b is a
// bucket of the rule's own [Form], and n are the numbers of a [Reading] of it.
type counting interface {
	name() string

	// scale brings the rule's numbers to integers, the whole of them: what a lower class
	// and a queue make of them is not the algorithm's business.
	scale(r *Rule) (Scale, error)

	// used returns the units that a bucket counts as used: whole ones, and rest parts of
	// unit. The bucket may be of a rule with other numbers.
	used(f Form, b *Bucket, now int64) (units, rest, unit int64)

	// roll moves windows on to now, and begins one in an unused bucket.
	roll(r *Rule, b *Bucket, now, offset int64)

	// read describes a bucket that was rolled.
	read(r *Rule, b *Bucket, now, cost int64, n *[4]int64)

	// charge adds a cost that fits, and refund takes back one that was charged at a time.
	charge(r *Rule, b *Bucket, now, cost int64)
	refund(r *Rule, b *Bucket, now, cost, at int64)

	// remaining returns the units left, below 0 if more than all are used.
	remaining(r *Rule, n *[4]int64) int64

	// wait returns the microseconds until cost, at most the burst, fits: 0 if it does.
	// A log's reading has two waits in it: for the cost it was read for, and for one
	// unit, which of a bucket is the wait without its queue.
	wait(r *Rule, cost int64, n *[4]int64, one bool) int64

	// emptyAfter returns the microseconds until nothing counts as used any more.
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

// IsLog reports whether buckets of an algorithm keep entries of when units were charged.
func (a Algorithm) IsLog() bool { return a == SlidingLog || a == Concurrency }

// String returns the algorithm's name as documentation and logs write it.
func (a Algorithm) String() string {
	if !a.valid() {
		return "unknown algorithm"
	}
	return algorithms[a].name()
}
