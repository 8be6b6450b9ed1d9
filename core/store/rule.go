package store

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

// Numbers specify how a limit counts. [NewRule] checks them. They are comparable: equal
// Numbers make equal rules. To derive another limit, copy and change them. Durations are
// whole numbers of microseconds.
type Numbers struct {
	Algorithm  Algorithm
	Quota      int64         // units per Window
	Window     time.Duration // for Concurrency, the lease; unused for Calendar and Ledger, whose windows vary
	Burst      int64         // units that can be used at once: the capacity of a token bucket; defaults to Quota
	Whole      int64         // capacity for all classes of requests, of which this class may use Burst; defaults to Burst
	Debt       int64         // units beyond Whole that can be charged for what is spent already; needs HasDebt
	HasDebt    bool          // Debt is chosen, and may be 0; without it, it is as many units as Whole
	Soft       int64         // used units from which on a request is over the soft limit; 0 for no soft limit
	Jitter     bool          // windows start at an offset that depends on the key
	FromUse    bool          // a FixedWindow begins with the first charge, and is not aligned to the epoch
	Wait       time.Duration // how long requests of a token bucket may queue for their turn; 0 for no queue
	Once       time.Duration // how long an operation that was charged is remembered; 0 for not at all
	Repeats    int64         // free repeats of such an operation; defaults to 3 if Once is set
	Divided    bool          // clients divide the limit, a TokenBucket: see Check.Share
	Guaranteed int64         // units that are kept for the Share.Minimum of those who have one; needs Divided
	Block      Block         // the penalty; zero for none
	Calendar   Period        // the windows of Calendar and Ledger; zero for other algorithms
}

// Rule is the part of a limit that a store needs: its name and its numbers, checked and
// converted to the integers with which stores count. [NewRule] makes one. Its fields must
// not be changed: change the Numbers, and make another rule of them. Rules with equal
// names and numbers are equal (==). Rules are safe for concurrent use.
type Rule struct {
	Name string
	Numbers

	// Integers are the numbers as stores count with them.
	Integers Integers `json:"-"`

	calendar *calendar // nil but for windows of the calendar
	id       uint64
}

const (
	// maxWait bounds how long a request may be held.
	maxWait = time.Hour

	// A shorter lease would end between renewals. A longer one would keep slots taken for
	// too long after a crash.
	minLease = time.Second
	maxLease = 24 * time.Hour

	// maxLogQuota bounds a log, which remembers each request.
	maxLogQuota = 5000
)

// ID returns a number that stands for the rule's name, a hash of 52 bits: with one more, the most
// that Redis's Lua can compare. Among 60,000 names, two have the same number once in 2.5 million
// cases, and then a [Registry] refuses the second one.
func (r *Rule) ID() uint64 { return r.id }

// defaultRepeats is the default number of free repeats of an operation: as many as careful
// clients send.
const defaultRepeats = 3

// maxRepeats bounds Numbers.Repeats.
const maxRepeats = 1000

// The bounds of Numbers.Once.
const (
	minOnce = time.Second
	maxOnce = 31 * 24 * time.Hour
)

var errPenalizedLedger = errors.New("a limit with a penalty can't be kept in a book: an account that the store does not know must not count towards a block")

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
		r.Repeats = defaultRepeats
	}
	if err := r.validate(); err != nil {
		return err
	}
	if err := r.validateChosen(); err != nil {
		return err
	}
	if r.Algorithm == Calendar || r.Algorithm == Ledger {
		r.calendar = calendarOf(r.Calendar)
		r.Calendar = r.calendar.Period // equal zones may have been loaded twice
	}
	if err := r.convert(); err != nil {
		return err
	}
	if r.Block != (Block{}) {
		r.Block, err = r.Block.complete()
	}
	return err
}

func (r *Rule) validate() error {
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
	case r.Window > integer.Longest:
		return fmt.Errorf("window must be at most 100 years, got %v", r.Window)
	}
	switch {
	case r.Burst < 1:
		return fmt.Errorf("burst must be at least 1, got %d", r.Burst)
	case r.Whole < r.Burst:
		return fmt.Errorf("a class of requests can't have %d of %d units: Burst must be at most Whole", r.Burst, r.Whole)
	case r.Whole != r.Quota && r.Algorithm != TokenBucket:
		return fmt.Errorf("a burst belongs to a token bucket, not to a %v", r.Algorithm)
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

// validateChosen checks what not every limit has, and what its algorithm or the rest of it must go with.
func (r *Rule) validateChosen() error {
	switch {
	case r.Jitter && !r.Algorithm.shifts():
		return fmt.Errorf("jitter belongs to windows, not to a %v", r.Algorithm)
	case r.FromUse && r.Algorithm != FixedWindow:
		return fmt.Errorf("only a fixed window can begin with first use, not a %v", r.Algorithm)
	case r.FromUse && r.Jitter:
		return errors.New("jitter belongs to windows of the clock: those that begin with first use are spread as their first requests are")
	case r.HasDebt && r.Algorithm == Concurrency:
		return errors.New("a debt belongs to limits that count requests, not to a concurrency limit")
	case r.Debt < 0:
		return fmt.Errorf("the debt must be at least 0, got %d", r.Debt)
	case r.Debt > 0 && !r.HasDebt:
		return fmt.Errorf("a debt of %d that is not chosen: set HasDebt", r.Debt)
	case r.Guaranteed != 0 && !r.Divided:
		return errors.New("units are guaranteed to clients that divide a limit, and this one is not divided")
	case r.Divided:
		return r.validateDivided()
	}
	return nil
}

// maxDivided bounds the quota and the burst of a limit that clients divide: parts of it are counted exactly below.
const maxDivided = AllParts

func (r *Rule) validateDivided() error {
	switch {
	case r.Algorithm != TokenBucket:
		return fmt.Errorf("clients can divide a token bucket, not a %v", r.Algorithm)
	case r.Wait > 0:
		return errors.New("clients can't divide a bucket in which requests queue by arrival")
	case r.Window%time.Millisecond != 0:
		return fmt.Errorf("clients can divide a window of whole milliseconds, got %v", r.Window)
	case r.Quota > maxDivided || r.Whole > maxDivided || r.Whole/1024 > r.Quota:
		return fmt.Errorf("quota %d and burst %d are too large to be divided: the burst can be 1024 times the quota, and each 2^40", r.Quota, r.Whole)
	case r.Block != (Block{}):
		return errors.New("a limit that clients divide can't have a penalty: the denials of one client would block all of them")
	case 2*r.Whole+2 < r.Quota:
		return fmt.Errorf("burst %d is too small to be divided among clients: it needs half the quota of %d, since what a client may need in the next moment is kept in it", r.Whole, r.Quota)
	case r.Guaranteed < 0 || r.Guaranteed >= r.Whole || r.Guaranteed > r.Quota:
		return fmt.Errorf("what is guaranteed must be at least 0, up to the quota of %d, and below the burst of %d, got %d", r.Quota, r.Whole, r.Guaranteed)
	}
	return nil
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
