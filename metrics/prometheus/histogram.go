package prometheus

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// histogram counts durations, in classic and native buckets. Those of client_golang take four times
// as long for both: 70 ns, as much as a check in memory.
type histogram struct {
	bounds  *bounds
	created time.Time
	cells   []atomic.Uint64
	sum     atomic.Int64 // nanoseconds, shifted by bounds.shift

	exemplars []atomic.Pointer[exemplar] // by classic bucket
	throttles []throttle
}

func newHistogram(b *bounds) *histogram {
	n := len(b.classic) + 1
	return &histogram{
		bounds: b, created: time.Now(), cells: make([]atomic.Uint64, len(b.cells)),
		exemplars: make([]atomic.Pointer[exemplar], n), throttles: make([]throttle, n),
	}
}

// observe counts a duration, which is not negative.
func (h *histogram) observe(d time.Duration, t *tracing) {
	i := h.bounds.find(int64(d))
	h.cells[i].Add(1)
	h.sum.Add(int64(d) >> h.bounds.shift)
	if t.of == nil {
		return
	}
	bucket := h.bounds.cells[i].classic
	if trace := t.due(&h.throttles[bucket]); trace != "" {
		h.exemplars[bucket].Store(newExemplar(d, trace))
	}
}

// used reports whether the histogram has counted something.
func (h *histogram) used() bool {
	for i := range h.cells {
		if h.cells[i].Load() > 0 {
			return true
		}
	}
	return false
}

// write writes both formats.
func (h *histogram) write() *dto.Histogram {
	b := h.bounds
	classic := make([]uint64, len(b.classic)+1)
	native := make([]uint64, b.cells[len(b.cells)-1].native-b.lowest+2) // the first is zero
	var count uint64
	for i := range h.cells {
		n := h.cells[i].Load()
		count += n
		classic[b.cells[i].classic] += n
		native[b.cells[i].native-b.lowest+1] += n
	}
	out := &dto.Histogram{
		SampleCount: proto.Uint64(count), SampleSum: proto.Float64(float64(h.sum.Load()) * float64(int64(1)<<b.shift) / 1e9),
		CreatedTimestamp: timestamppb.New(h.created),
		Schema:           proto.Int32(b.schema), ZeroThreshold: proto.Float64(b.zeroThreshold()), ZeroCount: proto.Uint64(native[0]),
	}
	var below uint64
	for i, n := range classic {
		upper := math.Inf(1)
		if i < len(b.classic) {
			upper = b.classic[i].Seconds()
		}
		below += n
		bucket := &dto.Bucket{CumulativeCount: proto.Uint64(below), UpperBound: proto.Float64(upper)}
		if e := h.exemplars[i].Load(); e != nil {
			bucket.Exemplar = e.write()
			out.Exemplars = append(out.Exemplars, bucket.Exemplar)
		}
		out.Bucket = append(out.Bucket, bucket)
	}
	slices.SortFunc(out.Exemplars, func(a, b *dto.Exemplar) int { return a.Timestamp.AsTime().Compare(b.Timestamp.AsTime()) })
	out.PositiveSpan, out.PositiveDelta = spans(native[1:], b.lowest)
	return out
}

// spans encodes native buckets, of which the first has a number, as runs of those that are not
// empty. Each count is the difference to the one before.
func spans(counts []uint64, first int) (runs []*dto.BucketSpan, deltas []int64) {
	next, last := 0, int64(0)
	for i, n := range counts {
		if n == 0 {
			continue
		}
		number := first + i
		if len(runs) == 0 || number != next {
			runs = append(runs, &dto.BucketSpan{Offset: proto.Int32(int32(number - next)), Length: proto.Uint32(0)})
		}
		*runs[len(runs)-1].Length++
		deltas = append(deltas, int64(n)-last)
		next, last = number+1, int64(n)
	}
	return runs, deltas
}

// write writes the exemplar.
func (e *exemplar) write() *dto.Exemplar {
	return &dto.Exemplar{
		Value: proto.Float64(e.value), Timestamp: timestamppb.New(e.at),
		Label: []*dto.LabelPair{{Name: proto.String(traceLabel), Value: proto.String(e.trace)}},
	}
}

// histogramMetric is the histogram of one limit, as prometheus.Metric.
type histogramMetric struct {
	desc  *prometheus.Desc
	of    *histogram
	limit string
}

// Desc implements prometheus.Metric.
func (m *histogramMetric) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m *histogramMetric) Write(to *dto.Metric) error {
	to.Label = prometheus.MakeLabelPairs(m.desc, []string{m.limit})
	to.Histogram = m.of.write()
	return nil
}
