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
// That is so for a FixedWindow that begins with first use as well: see [Numbers].FromUse.
//
// The windows of a Calendar differ in length. A period that is longer than one of them can hold
// all of it and both its edges: 3 × quota in 24 hours around a day of 23, or in 31 days around
// February. docs/choose/algorithms.md draws each bound.
//
// Ledger is a Calendar whose use is kept in a book outside the store, and has its bound. No limit
// is made with it: a wrapper that keeps a book derives it from a Calendar, by counting.LedgerOf. An
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

// names are the names of the algorithms. The numbers between them are those of other records in stores, which
// package counting has; no limit can use them.
var names = [...]string{
	TokenBucket:   "token bucket",
	FixedWindow:   "fixed window",
	SlidingWindow: "sliding window",
	SlidingLog:    "sliding log",
	Calendar:      "calendar window",
	Concurrency:   "concurrency",
	Ledger:        "ledger",
}

// EndsAtOnce reports whether all units come back in one instant, the end of a window, and none before it.
func (a Algorithm) EndsAtOnce() bool { return a == FixedWindow || a == Calendar || a == Ledger }

// shifts reports whether the algorithm has windows that jitter can shift: not those of the calendar.
func (a Algorithm) shifts() bool { return a == FixedWindow || a == SlidingWindow }

func (a Algorithm) valid() bool { return int(a) < len(names) && names[a] != "" }

// String returns the algorithm's name, such as "token bucket".
func (a Algorithm) String() string {
	if !a.valid() {
		return "unknown algorithm"
	}
	return names[a]
}

// MarshalText returns the text of String, so that logs in JSON have words and no numbers.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
