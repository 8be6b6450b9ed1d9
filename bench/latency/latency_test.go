package latency

import (
	"math"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
)

func TestLatencyBuckets(t *testing.T) {
	t.Parallel()
	for i := 1; i < buckets; i++ {
		if least(i) <= least(i-1) {
			t.Fatalf("bucket %d begins at %d, the one before at %d", i, least(i), least(i-1))
		}
	}
	for _, n := range []time.Duration{0, 1, 31, 32, 33, 63, 64, 65, 1000, 123_456, time.Second, math.MaxInt64} {
		from := least(bucket(uint64(n)))
		if from > n || float64(n-from) > float64(n)/32 {
			t.Errorf("%d is in the bucket that begins at %d", n, from)
		}
	}
}

func TestLatencyQuantiles(t *testing.T) {
	t.Parallel()
	var a, b Histogram
	check.Equal(t, "the median of none", a.Quantile(0.5), 0)
	for i := range 1000 {
		l := &a
		if i%2 == 0 {
			l = &b
		}
		l.Record(time.Duration(i) * time.Microsecond)
	}
	a.Merge(&b)
	for q, micros := range map[float64]int{0: 0, 0.5: 500, 0.99: 990, 0.999: 999} {
		want := time.Duration(micros) * time.Microsecond
		if got := a.Quantile(q); got > want || got < want-want/32 {
			t.Errorf("quantile %v = %v, want %v or up to 1/32 less", q, got, want)
		}
	}
}
