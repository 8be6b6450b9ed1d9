package prometheus

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// bounds are the buckets of a histogram, for both formats. A value is counted once, in a cell: the
// range between two neighbours among all bounds of both. At a scrape, cells are summed up to buckets
// of each.
type bounds struct {
	schema  int32           // of native buckets: 2^schema of them for each power of two
	lowest  int             // the native bucket of the smallest values; those below are zero
	classic []time.Duration // in rising order
	shift   uint            // of sums: those of a billion denials for an hour must fit

	cells []cell     // in rising order; the last has no upper bound
	start [65]uint16 // by the number of a value's bits, the first cell where it can be
}

// cell is a range of values. Each belongs to one bucket of each format.
type cell struct {
	upper   int64 // the highest value, in nanoseconds
	classic int   // index of the bucket
	native  int   // number of the bucket, below lowest for zero
}

// newBounds returns bounds with native buckets from 2^from to 2^to seconds, and sums in units of
// 2^shift nanoseconds.
func newBounds(shift uint, schema int32, from, to int, classic ...time.Duration) (b bounds) {
	perPower := 1 << schema
	b.shift, b.schema, b.lowest, b.classic = shift, schema, from*perPower+1, classic
	var uppers []int64
	for i := b.lowest - 1; i <= to*perPower; i++ {
		uppers = append(uppers, b.nativeUpper(i))
	}
	for _, c := range classic {
		uppers = append(uppers, int64(c))
	}
	slices.Sort(uppers)
	uppers = append(slices.Compact(uppers), math.MaxInt64)
	native := b.lowest - 1
	for _, upper := range uppers {
		for native < to*perPower && b.nativeUpper(native) < upper {
			native++
		}
		i, _ := slices.BinarySearch(classic, time.Duration(upper))
		b.cells = append(b.cells, cell{upper, i, native})
	}
	for n := range b.start {
		least := int64(0)
		if n > 0 && n < 64 {
			least = 1 << (n - 1)
		}
		i, _ := slices.BinarySearchFunc(b.cells, least, func(c cell, v int64) int { return int(max(min(c.upper-v, 1), -1)) })
		b.start[n] = uint16(i)
	}
	return b
}

// nativeUpper returns the highest value of a native bucket, in nanoseconds.
func (b *bounds) nativeUpper(i int) int64 {
	return int64(math.Exp2(float64(i)/float64(int(1)<<b.schema)) * float64(time.Second))
}

// find returns the cell of a value, which is not negative.
func (b *bounds) find(v int64) int {
	i := int(b.start[bits.Len64(uint64(v))])
	for b.cells[i].upper < v {
		i++
	}
	return i
}

// zeroThreshold returns up to which value the native format counts values as zero, in seconds.
func (b *bounds) zeroThreshold() float64 {
	return math.Exp2(float64(b.lowest-1) / float64(int(1)<<b.schema))
}

// The bounds of the three histograms. A check takes less than a microsecond in memory and at most
// the limiter's timeout on Redis. A wait is as long as a limit says, a client is told to wait for up
// to a month.
var (
	checkBounds = newBounds(0, 3, -20, 4, time.Microsecond, 10*time.Microsecond, 100*time.Microsecond, 250*time.Microsecond,
		500*time.Microsecond, time.Millisecond, 2500*time.Microsecond, 5*time.Millisecond, 10*time.Millisecond,
		25*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond, time.Second)
	waitBounds = newBounds(10, 3, -10, 8, 5*time.Millisecond, 10*time.Millisecond, 25*time.Millisecond, 50*time.Millisecond,
		100*time.Millisecond, 250*time.Millisecond, 500*time.Millisecond, time.Second, 2500*time.Millisecond,
		5*time.Second, 10*time.Second, 30*time.Second, time.Minute)
	retryAfterBounds = newBounds(20, 2, -10, 25, 100*time.Millisecond, time.Second, 5*time.Second, 15*time.Second, time.Minute,
		5*time.Minute, 15*time.Minute, time.Hour, 6*time.Hour, 24*time.Hour, 7*24*time.Hour)
)
