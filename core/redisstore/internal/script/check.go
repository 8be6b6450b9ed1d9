package script

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// An algorithm has four bits of a record's head; see appendHead.
const _ = 15 - counting.LastAlgorithm

// maxCost stands for any larger cost: no limit has room for it, and all that the script
// computes with it stays exact.
const maxCost = 1 << 52

// appendCheck writes a check as lua/header.lua describes it. mark is the number of its
// mark's key, or 0. now decides which calendar windows are sent. from belongs to a restoration.
func appendCheck(dst []byte, op Op, check *store.Check, charged int64, mark int, of alternative, now int64, from *counting.Restoration) []byte {
	ints, cost := check.Rule.Integers, costOf(op, check, from)
	tick, per, offset := ints.Tick, ints.Unit, int64(0)
	switch check.Rule.Algorithm {
	case store.TokenBucket:
		per, offset = ints.Rate, check.Rule.Integers.Ahead
	case store.Calendar, store.Ledger:
		tick, per, offset = check.Rule.Period(now)
		if op == Refund {
			charged = check.Rule.PeriodEnd(charged)
		}
	default:
		if offset = counting.Offset(check.Rule, check.Key); check.Rule.FromUse {
			offset = -1 // no window of the clock
		}
	}
	dst = append(dst, algorithmOf(check, mark, of))
	for _, n := range [...]int64{tick, per, ints.Capacity, cost, offset} {
		dst = appendNumber(dst, n)
	}
	dst = appendHead(dst, check.Rule, ints)
	switch op {
	case Refund, Renew:
		dst = appendNumber(dst, charged)
	case Restore:
		for _, n := range [...]int64{from.Ends, from.Generation, max(from.Expect, from.Position), from.History} {
			dst = appendNumber(dst, n)
		}
	}
	if mark > 0 {
		dst = append(dst, byte(mark))
	}
	if ints.Whole != ints.Capacity {
		dst = appendNumber(dst, ints.Whole)
	}
	if of.choice > 0 {
		dst = append(dst, of.choice, of.place, of.guess)
	}
	if op == Charge {
		dst = appendNumber(dst, ints.Most)
	}
	return dst
}

// algorithmOf returns the check's algorithm with what is said beside it.
func algorithmOf(check *store.Check, mark int, of alternative) byte {
	algorithm := byte(check.Rule.Algorithm)
	if check.Shadow {
		algorithm |= 1 << 7
	}
	if check.Rule.Integers.Whole != check.Rule.Integers.Capacity {
		algorithm |= 1 << 5
	}
	if mark > 0 {
		algorithm |= 1 << 6
	}
	if of.choice > 0 {
		algorithm |= isAlternative
	}
	return algorithm
}

// costOf returns the cost as the script reads it: of a token bucket in debt.
func costOf(op Op, check *store.Check, from *counting.Restoration) int64 {
	ints, cost := &check.Rule.Integers, min(check.Cost, maxCost)
	switch {
	case op == Restore:
		return from.Used
	case check.Rule.Algorithm != store.TokenBucket:
		return cost
	case op <= Peek && cost > check.Rule.Burst: // never fits, even if the queue has room for it
		cost = maxCost
	}
	return min(cost, ints.Most/ints.Unit+2) * ints.Unit // more than can be owed has the same effect
}

// The head of a record has four bits for the algorithm: this does not compile if one is above 15.
const _ = uint(15 - counting.LastAlgorithm)

// appendHead writes the length of the head of the rule's records, and the head: the limit,
// and those of its numbers that are needed to read a record after they have changed.
func appendHead(dst []byte, rule *store.Rule, ints store.Integers) []byte {
	tick := byte(0)
	switch ints.Tick {
	case 1000:
		tick = 1
	case 1_000_000:
		tick = 2
	}
	start := len(dst)
	dst = append(dst, 0)
	dst = appendID(dst, rule.ID())
	dst = append(dst, byte(rule.Algorithm)<<4|tick, 0)
	form := len(dst)
	dst = appendInt(dst, ints.Unit, bytesOf(ints.Unit))
	unit, width := len(dst)-form, 0
	switch rule.Algorithm {
	case store.TokenBucket:
		if ints.Rate > 1 {
			width = fieldFor(ints.Rate)
			dst = appendInt(dst, ints.Rate, width)
		}
	case store.Ledger:
		width = ledgerWidth
	case store.FixedWindow, store.SlidingWindow, store.Calendar:
		width = max(fieldFor(max(2*ints.Whole, ints.Most)), 4)
	case store.SlidingLog, store.Concurrency: // their entries are all of one length
	default:
		// No rule has another algorithm, and a test calls this with each. A head without
		// its width would have records read in the layout of another algorithm.
		panic(fmt.Sprintf("weblimit: no record for algorithm %d", rule.Algorithm))
	}
	dst[form-1] = byte(unit<<4 | width)
	dst[start] = byte(len(dst) - start - 1)
	return dst
}

// fieldFor returns the length of a field for numbers up to n: 1, 2, 4 or 7 bytes.
func fieldFor(n int64) int {
	switch length := bytesOf(n); {
	case length <= 2:
		return length
	case length <= 4:
		return 4
	}
	return 7
}

// bytesOf returns how many bytes a positive number takes.
func bytesOf(n int64) int { return (bits.Len64(uint64(n)) + 7) / 8 }

// appendID writes the id of a limit.
func appendID(dst []byte, id uint64) []byte { return appendInt(dst, int64(id), idLength) }

// appendInt writes n in length bytes, little-endian.
func appendInt(dst []byte, n int64, length int) []byte {
	for range length {
		dst = append(dst, byte(n))
		n >>= 8
	}
	return dst
}

// appendNumber writes n as a double, which the script reads in half the time that an
// integer takes. n is below 2^53.
func appendNumber(dst []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(n)))
}
