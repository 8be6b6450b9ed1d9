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

func (a Algorithm) valid() bool { return a.String() != "unknown algorithm" }

// IsLog reports whether buckets of an algorithm keep entries of when units were charged.
func (a Algorithm) IsLog() bool { return a == SlidingLog || a == Concurrency }

// String returns the algorithm's name as documentation and logs write it.
func (a Algorithm) String() string {
	switch a {
	case TokenBucket:
		return "token bucket"
	case FixedWindow:
		return "fixed window"
	case SlidingWindow:
		return "sliding window"
	case SlidingLog:
		return "sliding log"
	case Calendar:
		return "calendar window"
	case Concurrency:
		return "concurrency"
	}
	return "unknown algorithm"
}
