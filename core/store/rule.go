package store

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// Numbers specify how a limit counts. [NewRule] checks them. They are comparable: equal
// Numbers make equal rules. To derive another limit, copy and change them. Durations are
// whole numbers of microseconds.
type Numbers struct {
	Algorithm Algorithm
	Quota     int64         // units per Window
	Window    time.Duration // for Concurrency, the lease; unused for Calendar and Ledger, whose windows vary
	Burst     int64         // units that can be used at once: the capacity of a token bucket; defaults to Quota
	Whole     int64         // capacity for all classes of requests, of which this class may use Burst; defaults to Burst
	Soft      int64         // used units from which on a request is over the soft limit; 0 for no soft limit
	Jitter    bool          // windows start at an offset that depends on the key
	Wait      time.Duration // how long requests of a token bucket may queue for their turn; 0 for no queue
	Once      time.Duration // how long an operation that was charged is remembered; 0 for not at all
	Repeats   int64         // free repeats of such an operation; defaults to DefaultRepeats if Once is set
	Block     Block         // the penalty; zero for none
	Calendar  Period        // the windows of Calendar and Ledger; zero for other algorithms
}

// Rule is the part of a limit that a store needs: its name and its numbers, checked and
// converted to the integers with which stores count. [NewRule] makes one. Its fields must
// not be changed: change the Numbers, and make another rule of them. Rules with equal
// names and numbers are equal (==). Rules are safe for concurrent use.
type Rule struct {
	Name string
	Numbers

	ints     Integers
	ahead    int64     // microseconds after the present in which a bucket can expire: see counting
	calendar *calendar // nil but for windows of the calendar
	id       uint64
}

// Integers are a rule's numbers as the integers with which stores count. All of them are at
// most 2^51, so that they, their sums and their differences are exact in a float64, the
// only number that Redis's Lua has.
//
// For a token bucket, one unit is Unit debt, the bucket and its queue hold Capacity debt,
// and Rate debt drains each Tick. Unit and Rate are window and quota in lowest terms, so no
// rate is rounded. For windows, Unit is the window in Ticks, Capacity is the quota, and
// Rate is 1. For calendar windows, Unit is a number that stands for the [Period].
type Integers struct {
	Tick     int64 // microseconds: 1, 1000 or 1,000,000
	Unit     int64
	Rate     int64
	Capacity int64
	Whole    int64 // Capacity for the class of requests that may use all of it: see core.Limit.KeepFree
}

const (
	// maxInteger bounds all Integers: the sum of three stays below 2^53.
	maxInteger = 1 << 51

	// maxRefill bounds how far ahead of its clock a bucket can be.
	maxRefill = 100 * 365 * 24 * time.Hour

	// maxWait bounds how long a request may be held.
	maxWait = time.Hour

	// maxLogQuota bounds a log, which remembers each request.
	maxLogQuota = 5000
)

// ticks are the resolutions a rule may count in, finest first, in microseconds.
var ticks = [...]int64{1, 1000, 1_000_000}

// Integers returns the rule's numbers as the integers with which stores count.
func (r *Rule) Integers() Integers { return r.ints }

// Ahead returns how many microseconds after the present a bucket of the rule can expire at most. One
// that expires later was written before the clock was set back; [Bucket.Open] brings it back. It
// returns 0 for windows of the calendar, which differ in length.
func (r *Rule) Ahead() int64 { return r.ahead }

// ID returns a number that stands for the rule's name, a hash of 52 bits: with one more, the most
// that Redis's Lua can compare. Among 60,000 names, two have the same number once in 2.5 million
// cases, and then a [Registry] refuses the second one.
func (r *Rule) ID() uint64 { return r.id }

// ReservedID is an ID under which a store can keep records of its own, and NoticeID another. They are
// above all others: no limit has one of them as its ID or as its [Rule].PenaltyID.
const (
	ReservedID = 1<<(idBits+1) - 1
	NoticeID   = ReservedID - 1
)

// NewRule checks a limit's numbers, sets their defaults, and returns the rule. Its error
// names the limit and the number that is wrong. NewRule does not check the name; for
// headers it must consist of 1 to 64 letters, digits and . _ -.
func NewRule(name string, n Numbers) (Rule, error) {
	r := Rule{Name: name, Numbers: n, id: nameID(name)}
	if err := r.complete(); err != nil {
		return Rule{}, AtLimit(name, err)
	}
	return r, nil
}

// complete sets defaults, checks the numbers and derives the integers.
func (r *Rule) complete() (err error) {
	if r.Burst == 0 {
		r.Burst = r.Quota
	}
	if r.Whole == 0 {
		r.Whole = r.Burst
	}
	if r.Repeats == 0 && r.Once != 0 {
		r.Repeats = DefaultRepeats
	}
	if err := r.validate(); err != nil {
		return err
	}
	if r.Algorithm == Calendar || r.Algorithm == Ledger {
		r.calendar = calendarOf(r.Calendar)
		r.Calendar = r.calendar.Period // equal zones may have been loaded twice
	}
	if r.ints, err = algorithms[r.Algorithm].integers(r); err != nil {
		return err
	}
	r.ints.Whole = r.ints.Capacity
	if r.Burst < r.Whole {
		r.ints.Capacity = r.Burst
		if r.Algorithm == TokenBucket {
			r.ints.Capacity *= r.ints.Unit
		}
	}
	if err := r.queue(); err != nil {
		return err
	}
	r.ahead = algorithms[r.Algorithm].ahead(r)
	if r.Block != (Block{}) {
		r.Block, err = r.Block.complete()
	}
	return err
}

func (r *Rule) validate() error {
	windowed := r.Algorithm == FixedWindow || r.Algorithm == SlidingWindow
	onCalendar := r.Algorithm == Calendar || r.Algorithm == Ledger
	switch {
	case !r.Algorithm.valid():
		return fmt.Errorf("unknown algorithm %d", r.Algorithm)
	case r.Quota < 1:
		return fmt.Errorf("quota must be at least 1, got %d", r.Quota)
	case !onCalendar && r.Calendar != (Period{}):
		return fmt.Errorf("a limit per month or calendar day can't be a %v: its window is the calendar's", r.Algorithm)
	case onCalendar:
		if err := r.Calendar.validate(); err != nil {
			return err
		}
	case r.Algorithm == Concurrency && (r.Window < minLease || r.Window > maxLease || r.Window%time.Microsecond != 0):
		return fmt.Errorf("the lease must be from 1s to 24h, in whole microseconds, got %v", r.Window)
	case r.Window < time.Millisecond:
		return fmt.Errorf("window must be at least 1ms, got %v", r.Window)
	case r.Window%time.Microsecond != 0:
		return fmt.Errorf("window must be a whole number of microseconds, got %v", r.Window)
	case r.Window > maxRefill:
		return fmt.Errorf("window must be at most 100 years, got %v", r.Window)
	}
	switch {
	case r.Burst < 1:
		return fmt.Errorf("burst must be at least 1, got %d", r.Burst)
	case r.Whole < r.Burst:
		return fmt.Errorf("a class of requests can't have %d of %d units: Burst must be at most Whole", r.Burst, r.Whole)
	case r.Whole != r.Quota && r.Algorithm != TokenBucket:
		return fmt.Errorf("a burst belongs to a token bucket, not to a %v", r.Algorithm)
	case r.Jitter && !windowed:
		return fmt.Errorf("jitter belongs to windows, not to a %v", r.Algorithm)
	case r.Soft < 0 || r.Soft > 0 && r.Soft >= r.Whole:
		return fmt.Errorf("the soft limit must be at least 1 and below the %d units of the limit itself, got %d", r.Whole, r.Soft)
	case r.Algorithm == SlidingLog && r.Quota > maxLogQuota:
		return fmt.Errorf("a sliding log remembers each request: quota must be at most %d, got %d (SlidingWindow has no such bound)", maxLogQuota, r.Quota)
	case r.Algorithm == Concurrency && r.Quota > maxLogQuota:
		return fmt.Errorf("a concurrency limit can be at most %d, got %d", maxLogQuota, r.Quota)
	case r.Algorithm == Ledger && r.Block != (Block{}):
		return errPenalizedLedger
	case r.Once != 0 && r.Algorithm == Concurrency:
		return errors.New("OncePer belongs to limits that count requests, not to a concurrency limit")
	case r.Once != 0 && (r.Once < minOnce || r.Once > maxOnce || r.Once%time.Microsecond != 0):
		return fmt.Errorf("OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got %v", r.Once)
	case r.Repeats != 0 && r.Once == 0:
		return errors.New("free repeats need operations that are charged once")
	case r.Once != 0 && (r.Repeats < 1 || r.Repeats > maxRepeats):
		return fmt.Errorf("free repeats must be from 1 to %d, got %d", maxRepeats, r.Repeats)
	case r.Wait != 0 && r.Algorithm != TokenBucket:
		return fmt.Errorf("a queue belongs to a token bucket, not to a %v", r.Algorithm)
	case r.Wait < 0 || r.Wait > maxWait || r.Wait%time.Microsecond != 0:
		return fmt.Errorf("a request may wait whole microseconds up to %v, not %v", maxWait, r.Wait)
	case r.Wait > 0 && r.Burst < r.Whole:
		return errors.New("a token bucket in which requests queue has only one class of requests")
	}
	return nil
}

// queue adds capacity for requests that wait for their turn: what drains in Wait.
func (r *Rule) queue() error {
	ticks := r.Wait.Microseconds() / r.ints.Tick
	if ticks > (maxInteger-r.ints.Capacity)/r.ints.Rate {
		return fmt.Errorf("a wait of %v at %d per %v is too much to count exactly", r.Wait, r.Quota, r.Window)
	}
	r.ints.Capacity += ticks * r.ints.Rate
	r.ints.Whole += ticks * r.ints.Rate
	return nil
}

// windowIntegers returns the integers of windows in microseconds.
func (r *Rule) windowIntegers() (Integers, error) {
	if r.Quota > maxInteger {
		return Integers{}, r.inexact()
	}
	return Integers{Tick: 1, Unit: r.Window.Microseconds(), Rate: 1, Capacity: r.Quota}, nil
}

// inexact is the error of numbers that are too large.
func (r *Rule) inexact() error {
	return fmt.Errorf("quota %d and burst %d per %v are too large to count exactly", r.Quota, r.Burst, r.Window)
}

// Offset returns the offset of key's windows from the epoch in microseconds: 0 without
// Jitter, otherwise a multiple of the tick below the window. It is the same in every
// process.
func (r *Rule) Offset(key []byte) int64 {
	if !r.Jitter { // most rules; apart from the loop, so that this part is inlined
		return 0
	}
	return r.jitter(key)
}

func (r *Rule) jitter(key []byte) int64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	// FNV alone leaves keys that differ in their last digits close together.
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int64(h>>11) % r.ints.Unit * r.ints.Tick
}

// idBits is the length of a Rule.ID.
const idBits = 52

func nameID(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return mix(h.Sum64()) % (1<<idBits - 2)
}

// mix is the last step of MurmurHash3: FNV alone leaves texts that differ in their last characters
// close together.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
