// Package integer has the divisions by which limits count, without a float.
package integer

import (
	"math/bits"
	"time"
)

// Max bounds the integers with which limits count: the sum of three stays below 2^53.
const Max = 1 << 51

// Longest bounds windows, and how far ahead of its clock a bucket can be.
const Longest = 100 * 365 * 24 * time.Hour

// InTicks returns a time in whole ticks. Nearly all rules count in microseconds,
// and a division takes as long as all else that is done with the result.
func InTicks(micros, tick int64) int64 {
	if tick == 1 {
		return micros
	}
	return micros / tick
}

// CeilDiv returns a / b rounded up, for a >= 0 and b > 0.
func CeilDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 {
		q++
	}
	return q
}

// FloorDiv returns a / b rounded down; b must be positive.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// CeilMulDiv returns a × b / c rounded up, for a >= 0, b >= 0 and c > 0; the product may need
// 128 bits. The result must have room in 63, as it has for a <= c, where it is at most b.
func CeilMulDiv(a, b, c int64) int64 {
	if a == c {
		return b
	}
	high, low := bits.Mul64(uint64(a), uint64(b))
	quotient, rest := bits.Div64(high, low, uint64(c))
	if rest != 0 {
		quotient++
	}
	return int64(quotient)
}

// GCD returns the greatest common divisor of two positive integers.
func GCD(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
