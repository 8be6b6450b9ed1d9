package counting

import (
	"math/bits"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// Result returns the answer for a cost, given a reading of a bucket under r. It is safe for
// concurrent use.
func (reading *Reading) Result(r *store.Rule, cost int64) store.Result {
	var result store.Result
	reading.Answer(r, cost, &result)
	return result
}

// Answer is Result without a copy, which takes a few percent of a decision in memory.
func (reading *Reading) Answer(r *store.Rule, cost int64, result *store.Result) {
	if r.Algorithm == store.TokenBucket && reading.Charged && reading.Blocked == 0 && r.Wait == 0 && !r.Divided && reading.answerTokens(r, result) {
		return
	}
	// Field by field: the compiler builds a composite literal on the stack and copies it
	// with wide loads, which have to wait for the narrow stores before them.
	result.Allowed = reading.Charged || reading.fits(r, cost)
	result.Charged = reading.Charged
	result.Blocked, result.Repeated, result.Cached, result.Unknown = false, false, false, false
	result.Standing, result.Share = store.Undivided, 0
	remaining := r.Burst - reading.Numbers[0] // without a call, which would take 3 % of a decision in memory
	switch r.Algorithm {
	case store.TokenBucket:
		remaining = tokenBucket{}.remaining(r, &reading.Numbers)
	case store.SlidingWindow:
		remaining = slidingWindow{}.remaining(r, &reading.Numbers)
	case store.Ledger:
		remaining = ledger{}.remaining(r, &reading.Numbers)
		if reading.IsUnknown() {
			result.Unknown, result.Charged = true, false
		}
	}
	result.Remaining = max(remaining, 0)
	result.RetryAfter, result.Turn, result.Forgiven = 0, 0, 0
	result.At = reading.At
	if r.Wait > 0 && result.Charged {
		result.Turn = micros(debtWaitIn(r, r.Burst*r.Integers.Unit, 0, &reading.Numbers))
	}
	if !result.Allowed && cost <= r.Burst {
		result.RetryAfter = micros(waitFor(r, cost, &reading.Numbers, false))
	}
	if r.Divided {
		reading.answerShare(r, cost, result)
	}
	switch {
	case r.Algorithm == store.Concurrency:
		result.Window = slotRetry
		if result.Charged {
			result.At = reading.slotsAt(r)
		}
	case result.RetryAfter > 0:
		result.Window = result.RetryAfter
	case result.Remaining == 0:
		result.Window = micros(waitFor(r, 1, &reading.Numbers, true))
	case r.Algorithm.EndsAtOnce():
		result.Window = micros(reading.Numbers[1])
	default:
		result.Window = micros(spread(r, result.Remaining))
	}
	result.ResetAfter = micros(emptyAfter(r, &reading.Numbers))
	if reading.Blocked > 0 {
		setBlocked(result, reading.Blocked, cost <= r.Burst)
	}
}

// answerTokens is Answer for a cost that was charged to a token bucket which has something left.
// It reports false for one that has not.
func (reading *Reading) answerTokens(r *store.Rule, result *store.Result) bool {
	remaining := debtRemaining(r, &reading.Numbers)
	if remaining <= 0 {
		return false
	}
	result.Allowed, result.Charged = true, true
	result.Blocked, result.Repeated, result.Cached, result.Unknown = false, false, false, false
	result.Remaining = remaining
	result.Standing, result.Share = store.Undivided, 0
	result.RetryAfter, result.Turn, result.Forgiven = 0, 0, 0
	result.At = reading.At
	result.Window = micros(spread(r, remaining))
	result.ResetAfter = micros(tokenBucket{}.emptyAfter(r, &reading.Numbers))
	return true
}

// fits reports whether cost fits into the bucket that was read. It does not read
// reading.Blocked.
func (reading *Reading) fits(r *store.Rule, cost int64) bool {
	switch {
	case cost == 0:
		return true
	case cost > r.Burst:
		return false
	case r.Algorithm == store.TokenBucket:
		return debtFits(r, cost, &reading.Numbers) // its wait would take a division
	}
	return waitFor(r, cost, &reading.Numbers, false) == 0
}

// spread returns the microseconds in which the rule grants n units. n is at most the burst.
func spread(r *store.Rule, n int64) int64 {
	if r.Algorithm == store.TokenBucket && (r.Integers.Rate == 1 || r.Integers.Tick <= 1000) {
		// In lowest terms, which can't overflow: at most integer.Max ticks over Rate, or integer.Longest.
		n *= r.Integers.Unit * r.Integers.Tick
		if r.Integers.Rate != 1 { // divisions are slow, and the rate of most limits is 1
			n = integer.CeilDiv(n, r.Integers.Rate)
		}
		return n
	}
	w := r.Window.Microseconds()
	if high, low := bits.Mul64(uint64(n), uint64(w)); high == 0 && low < 1<<63 {
		return integer.CeilDiv(int64(low), r.Quota)
	}
	whole, rest := n/r.Quota, n%r.Quota
	return whole*w + integer.CeilMulDiv(rest, w, r.Quota)
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// After returns the reading as it would be after charging units that fit, at once. It does not
// work for sliding logs, whose bucket must be read again.
func (reading *Reading) After(r *store.Rule, units int64) Reading {
	after := *reading
	n := &after.Numbers
	if r.Algorithm == store.TokenBucket {
		debt := n[0]*r.Integers.Rate + n[1] + units*r.Integers.Unit
		n[0], n[1] = debt/r.Integers.Rate, debt%r.Integers.Rate
	} else {
		n[0] += units
	}
	switch r.Algorithm {
	case store.Concurrency:
		n[1] = max(n[1], r.Integers.Unit)
	case store.Ledger:
		n[2]++ // one change
	}
	after.Charged = true
	return after
}
