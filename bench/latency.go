package bench

import (
	"math/bits"
	"time"
)

// latencies counts durations in buckets that are 1/32 of their value wide. The zero value is
// ready to use. It is not safe for concurrent use: each goroutine has its own.
type latencies struct {
	counts [latencyBuckets]uint32
	total  int
}

const (
	latencyBits    = 5 // 32 buckets from one power of two to the next
	latencyBuckets = (64 - latencyBits) << latencyBits
)

func (l *latencies) record(d time.Duration) {
	l.counts[latencyBucket(uint64(max(d, 0)))]++
	l.total++
}

func (l *latencies) merge(other *latencies) {
	for i, n := range other.counts {
		l.counts[i] += n
	}
	l.total += other.total
}

// quantile returns the duration that the part q of all are not above, at most 1/32 too
// low, and 0 where there are none.
func (l *latencies) quantile(q float64) time.Duration {
	rank := int(q * float64(l.total))
	for i, n := range l.counts {
		if rank -= int(n); rank < 0 {
			return latencyOf(i)
		}
	}
	return 0
}

// latencyBucket returns the bucket of n nanoseconds: n itself below 32, then the place of
// the first bit and the five bits after it.
func latencyBucket(n uint64) int {
	shift := max(bits.Len64(n)-latencyBits-1, 0)
	return shift<<latencyBits + int(n>>shift)
}

// latencyOf returns the least duration of a bucket.
func latencyOf(bucket int) time.Duration {
	shift := max(bucket>>latencyBits-1, 0)
	return time.Duration(uint64(bucket-shift<<latencyBits) << shift)
}
