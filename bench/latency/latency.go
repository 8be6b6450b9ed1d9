// Package latency counts how long things took, in little memory and without sorting.
package latency

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets that are 1/32 of their value wide. The zero value is
// ready to use. It is not safe for concurrent use: each goroutine has its own.
type Histogram struct {
	counts [buckets]uint32
	total  int
}

const (
	fine    = 5 // 32 buckets from one power of two to the next
	buckets = (64 - fine) << fine
)

// Record counts one duration.
func (h *Histogram) Record(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.total++
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() int { return h.total }

// Quantile returns the duration that the part q of all are not above, at most 1/32 too
// low, and 0 where there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int(q * float64(h.total))
	for i, n := range h.counts {
		if rank -= int(n); rank < 0 {
			return least(i)
		}
	}
	return 0
}

// bucket returns the bucket of n nanoseconds: n itself below 32, then the place of the first
// bit and the five bits after it.
func bucket(n uint64) int {
	shift := max(bits.Len64(n)-fine-1, 0)
	return shift<<fine + int(n>>shift)
}

// least returns the least duration of a bucket.
func least(bucket int) time.Duration {
	shift := max(bucket>>fine-1, 0)
	return time.Duration(uint64(bucket-shift<<fine) << shift)
}
