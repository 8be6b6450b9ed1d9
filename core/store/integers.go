package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

// Integers are a rule's numbers as the integers with which stores count. All of them, but for Ahead, are at
// most 2^51, and Most 2^52, so that they, the sums of two of them and their differences are exact in a float64, the
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

	// Parts and Ticks are for a limit that clients divide: shares are counted in parts, of which AllParts are about the
	// quota and Parts are one unit, and in ticks of their own, of which Ticks are the window.
	Parts, Ticks int64

	// Most is what a charge of units that are spent already brings the use to at most: Whole and the debt.
	Most int64

	// Ahead is how many microseconds after the present a bucket of the rule can expire at most. One that
	// expires later was written before the clock was set back. It is 0 for windows of the calendar, which
	// differ in length.
	Ahead int64
}

// AllParts is how many parts the quota of a limit has that clients divide, or less, but always more than half. A product of it and
// Integers.Ticks is exact in a float64.
const AllParts = 1 << 40

// mostTicks bounds Integers.Ticks.
const mostTicks = 1 << 12

// ticks are the resolutions a rule may count in, finest first, in microseconds.
var ticks = [...]int64{1, 1000, 1_000_000}

// convert sets the rule's Integers.
func (r *Rule) convert() (err error) {
	if r.Integers, err = r.integers(); err != nil {
		return err
	}
	r.Integers.Whole = r.Integers.Capacity
	if r.Burst < r.Whole {
		r.Integers.Capacity = r.Burst
		if r.Algorithm == TokenBucket {
			r.Integers.Capacity *= r.Integers.Unit
		}
	}
	if err := r.queue(); err != nil {
		return err
	}
	if err := r.most(); err != nil {
		return err
	}
	r.Integers.Ahead = r.ahead()
	if r.Divided {
		r.Integers.Parts, r.Integers.Ticks = AllParts/r.Quota, min(mostTicks, r.Window.Microseconds()/r.Integers.Tick)
		for r.Window.Microseconds()%r.Integers.Ticks != 0 { // a window of whole milliseconds has a thousand at least
			r.Integers.Ticks--
		}
	}
	return nil
}

// maxLogged bounds what an entry of a sliding log can hold: it has two bytes for its units.
const maxLogged = 1<<16 - 1

// most sets Integers.Most. By default it is Whole, with the queue, once more.
func (r *Rule) most() error {
	n := &r.Integers
	if n.Most = 2 * n.Whole; !r.HasDebt {
		return nil
	}
	unit, most := int64(1), int64(2*integer.Max)
	switch r.Algorithm {
	case TokenBucket:
		unit = n.Unit
		if ticks := 2 * integer.Longest.Microseconds() / n.Tick; n.Rate < most/ticks {
			most = ticks * n.Rate // it drains within 200 years
		}
	case SlidingWindow:
		most /= n.Unit
	case SlidingLog:
		most = maxLogged
	}
	if r.Debt > (most-n.Whole)/unit {
		return fmt.Errorf("a debt of %d units beyond %d is too large to count exactly", r.Debt, r.Whole)
	}
	n.Most = n.Whole + r.Debt*unit
	return nil
}

// integers converts the rule's numbers, with Whole as the capacity, and without the queue.
func (r *Rule) integers() (Integers, error) {
	switch r.Algorithm {
	case TokenBucket:
		n, exact := bucketIntegers(r.Quota, r.Window, r.Whole)
		switch {
		case !exact:
			return Integers{}, r.inexact()
		case n.Capacity/n.Rate > integer.Longest.Microseconds()/n.Tick: // in ticks, so that the product can't overflow
			return Integers{}, errors.New("burst must refill within 100 years")
		}
		return n, nil
	case SlidingWindow:
		n, exact := slidingIntegers(r.Quota, r.Window)
		if !exact {
			return Integers{}, r.inexact()
		}
		return n, nil
	case Calendar, Ledger:
		if r.Quota > integer.Max {
			return Integers{}, fmt.Errorf("quota %d is too large to count exactly", r.Quota)
		}
		return Integers{Tick: 1, Unit: r.calendar.id, Rate: 1, Capacity: r.Quota}, nil
	}
	if r.Quota > integer.Max {
		return Integers{}, r.inexact()
	}
	return Integers{Tick: 1, Unit: r.Window.Microseconds(), Rate: 1, Capacity: r.Quota}, nil
}

// inexact is the error of numbers that are too large.
func (r *Rule) inexact() error {
	return fmt.Errorf("quota %d and burst %d per %v are too large to count exactly", r.Quota, r.Burst, r.Window)
}

// bucketIntegers picks the finest tick in which a full bucket can be counted.
func bucketIntegers(quota int64, window time.Duration, burst int64) (Integers, bool) {
	for _, tick := range ticks {
		if window.Microseconds()%tick != 0 {
			break
		}
		w := window.Microseconds() / tick
		g := integer.GCD(quota, w)
		s := Integers{Tick: tick, Unit: w / g, Rate: quota / g}
		if s.Rate <= integer.Max && burst <= integer.Max/s.Unit {
			s.Capacity = burst * s.Unit
			return s, true
		}
	}
	return Integers{}, false
}

// slidingIntegers picks the finest tick in which quota × window can be counted.
func slidingIntegers(quota int64, window time.Duration) (Integers, bool) {
	for _, tick := range ticks {
		if window.Microseconds()%tick != 0 {
			break
		}
		s := Integers{Tick: tick, Unit: window.Microseconds() / tick, Rate: 1, Capacity: quota}
		if quota <= integer.Max/s.Unit {
			return s, true
		}
	}
	return Integers{}, false
}

// queue adds capacity for requests that wait for their turn: what drains in Wait.
func (r *Rule) queue() error {
	n := &r.Integers
	ticks := r.Wait.Microseconds() / n.Tick
	if ticks > (integer.Max-n.Capacity)/n.Rate {
		return fmt.Errorf("a wait of %v at %d per %v is too much to count exactly", r.Wait, r.Quota, r.Window)
	}
	n.Capacity += ticks * n.Rate
	n.Whole += ticks * n.Rate
	return nil
}

// ahead returns Integers.Ahead.
func (r *Rule) ahead() int64 {
	n := &r.Integers
	switch r.Algorithm {
	case TokenBucket:
		// It allows for twice the burst, which a bucket can come to owe, and for the burst of another
		// class or tier: two windows, if that is longer. A debt that is chosen comes on top.
		window := min(r.Window, integer.Longest).Microseconds() / n.Tick
		ticks := 2*max(n.Whole/n.Rate+1, window) + 1
		if r.HasDebt {
			ticks += (n.Most - n.Whole) / n.Rate
		}
		return ticks * n.Tick
	case FixedWindow:
		return n.Unit
	case SlidingWindow:
		return 2 * n.Unit * n.Tick
	case SlidingLog, Concurrency:
		// It allows entries to lie one window ahead. An entry's time is its name: slots are given back
		// and renewed by it. So after a small step of the clock no entry changes, and counts a little longer.
		return 2 * n.Unit
	}
	return 0
}
