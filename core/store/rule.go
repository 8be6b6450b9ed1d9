//go:build moving

package store

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// Rule is the part of a limit that a store decides by: its name and numbers,
// checked and brought to the integers all stores count with. [Limit.Rule] makes
// one; the fields are for reading. Rules with equal fields are equal (==).
type Rule struct {
	Name      string
	Algorithm Algorithm
	Quota     int64         // units per Window
	Window    time.Duration // a whole number of microseconds; of Concurrency, the lease; 0 for a calendar window, whose length changes
	Burst     int64         // the most units at once: the bucket's capacity, else the Quota
	Soft      int64         // units from which on requests are over the soft limit; 0 for none
	Jitter    bool          // windows start at an offset that depends on the key
	Wait      time.Duration // a bucket's requests queue for their turn, at most so long

	scale    Scale
	upper    int64     // burst of the class that has all of it; 0 unless the rule is the lower class's
	calendar *calendar // nil but for a calendar window
	id       uint32
	once     time.Duration // how long an operation is known that was charged; 0 for none
	repeats  int64         // how many repeats of it are free then
	policy   [1]string     // what draft-11 says of the rule, as the values of a header
	block    Block         // zero without a penalty
}

// Scale is a rule in the integers that stores count with, all of them at most
// 2^51 so that they, their sums and their differences are exact in a float64,
// which is the only number Redis's Lua has.
//
// For a token bucket one unit is Unit debt, the bucket and its queue hold Capacity debt, and
// Rate debt drains each Tick; Unit and Rate are window and quota in lowest
// terms, so no rate is rounded. For windows Unit is the window in Ticks,
// Capacity the quota, and Rate is 1; for calendar windows Unit is a number that
// stands for the kind of period and the zone.
type Scale struct {
	Tick     int64 // microseconds
	Unit     int64
	Rate     int64
	Capacity int64
	Whole    int64 // the Capacity of the class of requests that has all of it: see Limit.Reserve
}

const (
	// maxScaled bounds every scaled number: three of them can be added and
	// stay below 2^53.
	maxScaled = 1 << 51

	// maxRefill bounds how far ahead of its clock a bucket can be.
	maxRefill = 100 * 365 * 24 * time.Hour

	// maxLogQuota bounds a log, which remembers each request.
	maxLogQuota = 5000
)

// ticks are the resolutions a rule may count in, finest first, in microseconds.
var ticks = [...]int64{1, 1000, 1_000_000}

// Scale returns the rule's scaled numbers.
func (r *Rule) Scale() Scale { return r.scale }

// ID returns a number for the rule's name that is as good as the name among the
// limits of one store: [Registry] refuses two names of one ID.
func (r *Rule) ID() uint32 { return r.id }

// ReservedID is the ID of no limit that a [Registry] knows, nor of its penalties:
// a store can keep records of its own under it.
const ReservedID = 1<<32 - 1

func newRule(name string, algorithm Algorithm, quota int64, window time.Duration, burst int64, jitter bool) (Rule, error) {
	r := Rule{Name: name, Algorithm: algorithm, Quota: quota, Window: window, Burst: burst, Jitter: jitter, id: nameID(name)}
	switch {
	case quota < 1:
		return Rule{}, fmt.Errorf("quota must be at least 1, got %d", quota)
	case algorithm == Concurrency && (window < minLease || window > maxLease || window%time.Microsecond != 0):
		return Rule{}, fmt.Errorf("the lease must be from 1s to 24h, in whole microseconds, got %v", window)
	case window < time.Millisecond:
		return Rule{}, fmt.Errorf("window must be at least 1ms, got %v", window)
	case window%time.Microsecond != 0:
		return Rule{}, fmt.Errorf("window must be a whole number of microseconds, got %v", window)
	case window > maxRefill:
		return Rule{}, fmt.Errorf("window must be at most 100 years, got %v", window)
	case burst < 1:
		return Rule{}, fmt.Errorf("burst must be at least 1, got %d", burst)
	case algorithm == SlidingLog && quota > maxLogQuota:
		return Rule{}, fmt.Errorf("a sliding log remembers each request: quota must be at most %d, got %d (SlidingWindow has no such bound)", maxLogQuota, quota)
	case algorithm == Concurrency && quota > maxLogQuota:
		return Rule{}, fmt.Errorf("at most %d requests at the same time can be counted, got %d", maxLogQuota, quota)
	}
	var ok bool
	switch algorithm {
	case TokenBucket:
		r.scale, ok = scaleBucket(quota, window, burst)
		// In ticks, so that the product can't overflow.
		if ok && r.scale.Capacity/r.scale.Rate > int64(maxRefill/time.Microsecond)/r.scale.Tick {
			return Rule{}, errors.New("burst must refill within 100 years")
		}
	case SlidingWindow:
		r.scale, ok = scaleEstimate(quota, window)
	default:
		r.scale = Scale{Tick: 1, Unit: window.Microseconds(), Rate: 1, Capacity: quota}
		ok = quota <= maxScaled
	}
	r.scale.Whole = r.scale.Capacity
	if !ok {
		return Rule{}, fmt.Errorf("quota %d and burst %d per %v are too large to count exactly", quota, burst, window)
	}
	r.setPolicy()
	return r, nil
}

// scaleBucket picks the finest tick in which a full bucket can be counted.
func scaleBucket(quota int64, window time.Duration, burst int64) (Scale, bool) {
	for _, tick := range ticks {
		if window.Microseconds()%tick != 0 {
			break
		}
		w := window.Microseconds() / tick
		g := gcd(quota, w)
		s := Scale{Tick: tick, Unit: w / g, Rate: quota / g}
		if s.Rate <= maxScaled && burst <= maxScaled/s.Unit {
			s.Capacity = burst * s.Unit
			return s, true
		}
	}
	return Scale{}, false
}

// scaleEstimate picks the finest tick in which quota × window can be counted.
func scaleEstimate(quota int64, window time.Duration) (Scale, bool) {
	for _, tick := range ticks {
		if window.Microseconds()%tick != 0 {
			break
		}
		s := Scale{Tick: tick, Unit: window.Microseconds() / tick, Rate: 1, Capacity: quota}
		if quota <= maxScaled/s.Unit {
			return s, true
		}
	}
	return Scale{}, false
}

// Offset returns by how many microseconds the windows of key are shifted from
// the epoch: 0 without Jitter, else anything below the window, in whole ticks,
// the same in every process.
func (r *Rule) Offset(key []byte) int64 {
	if !r.Jitter {
		return 0
	}
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	// FNV alone leaves keys that differ in their last digits close together.
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int64(h>>11) % r.scale.Unit * r.scale.Tick
}

func nameID(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
