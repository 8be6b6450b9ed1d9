package store

import (
	"math/bits"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

// Result returns the answer for a cost, given a reading of a bucket under r. It is safe for
// concurrent use.
func (r *Rule) Result(cost int64, reading Reading) Result {
	var result Result
	r.Answer(cost, &reading, &result)
	return result
}

// Answer is Result without copies, which take a few percent of a decision in memory.
func (r *Rule) Answer(cost int64, reading *Reading, result *Result) {
	if r.Algorithm == TokenBucket && reading.Charged && reading.Blocked == 0 && r.Wait == 0 && r.answerTokens(reading, result) {
		return
	}
	// Field by field: the compiler builds a composite literal on the stack and copies it
	// with wide loads, which have to wait for the narrow stores before them.
	result.Allowed = reading.Charged || r.Fits(cost, reading)
	result.Charged = reading.Charged
	result.Blocked, result.Repeated, result.Cached, result.Unknown = false, false, false, false
	remaining := r.Burst - reading.Numbers[0] // without a call, which would take 3 % of a decision in memory
	switch r.Algorithm {
	case TokenBucket:
		remaining = tokenBucket{}.remaining(r, &reading.Numbers)
	case SlidingWindow:
		remaining = slidingWindow{}.remaining(r, &reading.Numbers)
	case Ledger:
		remaining = ledger{}.remaining(r, &reading.Numbers)
		if reading.IsUnknown() {
			result.Unknown, result.Charged = true, false
		}
	}
	result.Remaining = max(remaining, 0)
	result.RetryAfter, result.Turn = 0, 0
	result.At = reading.At
	if r.Wait > 0 && result.Charged {
		result.Turn = micros(r.debtWaitIn(r.Burst*r.ints.Unit, 0, &reading.Numbers))
	}
	if !result.Allowed && cost <= r.Burst {
		result.RetryAfter = micros(r.wait(cost, &reading.Numbers, false))
	}
	switch {
	case r.Algorithm == Concurrency:
		result.Window = slotRetry
		if result.Charged {
			result.At = r.slotsAt(reading)
		}
	case result.RetryAfter > 0:
		result.Window = result.RetryAfter
	case result.Remaining == 0:
		result.Window = micros(r.wait(1, &reading.Numbers, true))
	case r.Algorithm == FixedWindow, r.Algorithm == Calendar, r.Algorithm == Ledger:
		result.Window = micros(reading.Numbers[1])
	default:
		result.Window = micros(r.spread(result.Remaining))
	}
	result.ResetAfter = micros(r.emptyAfter(&reading.Numbers))
	if reading.Blocked > 0 {
		result.block(reading.Blocked, cost <= r.Burst)
	}
}

// answerTokens is Answer for a cost that was charged to a token bucket which has something left.
// It reports false for one that has not.
func (r *Rule) answerTokens(reading *Reading, result *Result) bool {
	remaining := r.debtRemaining(&reading.Numbers)
	if remaining <= 0 {
		return false
	}
	result.Allowed, result.Charged = true, true
	result.Blocked, result.Repeated, result.Cached, result.Unknown = false, false, false, false
	result.Remaining = remaining
	result.RetryAfter, result.Turn = 0, 0
	result.At = reading.At
	result.Window = micros(r.spread(remaining))
	result.ResetAfter = micros(tokenBucket{}.emptyAfter(r, &reading.Numbers))
	return true
}

// Fits reports whether cost fits into the bucket that was read. It does not read
// reading.Blocked.
func (r *Rule) Fits(cost int64, reading *Reading) bool {
	switch {
	case cost == 0:
		return true
	case cost > r.Burst:
		return false
	case r.Algorithm == TokenBucket:
		return r.debtFits(cost, &reading.Numbers) // its wait would take a division
	}
	return r.wait(cost, &reading.Numbers, false) == 0
}

// spread returns the microseconds in which the rule grants n units. n is at most the burst.
func (r *Rule) spread(n int64) int64 {
	if r.Algorithm == TokenBucket && (r.ints.Rate == 1 || r.ints.Tick <= 1000) {
		// In lowest terms, which can't overflow: at most maxInteger ticks over Rate, or maxRefill.
		n *= r.ints.Unit * r.ints.Tick
		if r.ints.Rate != 1 { // divisions are slow, and the rate of most limits is 1
			n = integer.CeilDiv(n, r.ints.Rate)
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
func (r *Rule) After(reading Reading, units int64) Reading {
	n := &reading.Numbers
	if r.Algorithm == TokenBucket {
		debt := n[0]*r.ints.Rate + n[1] + units*r.ints.Unit
		n[0], n[1] = debt/r.ints.Rate, debt%r.ints.Rate
	} else {
		n[0] += units
	}
	switch r.Algorithm {
	case Concurrency:
		n[1] = max(n[1], r.ints.Unit)
	case Ledger:
		n[2]++ // one change
	}
	reading.Charged = true
	return reading
}
