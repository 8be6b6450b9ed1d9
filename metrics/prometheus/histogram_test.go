package prometheus

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// counts returns the count of each native bucket by its number, and checks the spans.
func counts(t *testing.T, h *dto.Histogram) map[int]int64 {
	t.Helper()
	all, number, last, next := map[int]int64{}, 0, int64(0), 0
	for _, span := range h.PositiveSpan {
		number += int(span.GetOffset())
		for range span.GetLength() {
			last += h.PositiveDelta[next]
			all[number] = last
			next, number = next+1, number+1
		}
	}
	check.Equal(t, "native buckets that the spans hold", next, len(h.PositiveDelta))
	return all
}

// The client library's own histogram is the model: the same values end in the same buckets, of both
// formats.
func TestHistogramsAreThoseOfTheClientLibrary(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*bounds{"check": &checkBounds, "wait": &waitBounds, "retry after": &retryAfterBounds} {
		own := newHistogram(b)
		var classic []float64
		for _, c := range b.classic {
			classic = append(classic, c.Seconds())
		}
		model := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "m", Buckets: classic, NativeHistogramBucketFactor: math.Exp2(math.Exp2(-float64(b.schema))) + 1e-9,
			NativeHistogramZeroThreshold: b.zeroThreshold(),
		})
		observe := func(d time.Duration) {
			own.observe(d, new(tracing))
			model.Observe(d.Seconds())
		}
		highest := b.cells[len(b.cells)-2].upper
		for range 20_000 {
			observe(time.Duration(math.Exp2(rand.Float64() * math.Log2(float64(highest)))))
		}
		for _, c := range b.classic {
			observe(c)
			observe(c + 1)
		}
		observe(0)
		var want dto.Metric
		must.OK(t, model.Write(&want))
		got := own.write()
		if got.GetSchema() != want.Histogram.GetSchema() || got.GetZeroThreshold() != want.Histogram.GetZeroThreshold() ||
			got.GetZeroCount() != want.Histogram.GetZeroCount() || got.GetSampleCount() != want.Histogram.GetSampleCount() ||
			math.Abs(got.GetSampleSum()/want.Histogram.GetSampleSum()-1) > 1e-4 {
			t.Errorf("%s: got %v, want %v", name, got, want.Histogram)
		}
		for i, bucket := range want.Histogram.Bucket {
			if got.Bucket[i].GetCumulativeCount() != bucket.GetCumulativeCount() || got.Bucket[i].GetUpperBound() != bucket.GetUpperBound() {
				t.Errorf("%s: bucket %d is %v, want %v", name, i, got.Bucket[i], bucket)
			}
		}
		one, other := counts(t, got), counts(t, want.Histogram)
		for number := range b.cells {
			number += b.lowest - 2
			check.Equal(t, fmt.Sprintf("%s: native bucket %d", name, number), one[number], other[number])
		}
	}
}

// Values beyond all bounds are in the last bucket of each format.
func TestHistogramsHoldTheLongestDuration(t *testing.T) {
	t.Parallel()
	h := newHistogram(&checkBounds)
	h.observe(math.MaxInt64, new(tracing))
	got := h.write()
	if n := got.Bucket[len(got.Bucket)-1].GetCumulativeCount(); n != 1 || got.Bucket[len(got.Bucket)-2].GetCumulativeCount() != 0 || len(counts(t, got)) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestHistogramsHaveExemplars(t *testing.T) {
	t.Parallel()
	h := newHistogram(&checkBounds)
	for range 3 {
		h.observe(2*time.Millisecond, traceOf("a1", 0))
		h.observe(time.Minute, traceOf("b2", 0))
		h.observe(time.Second, traceOf("", 0))
		h.observe(time.Second, new(tracing))
	}
	got := h.write()
	var traces []string
	for _, b := range got.Bucket {
		if b.Exemplar != nil {
			traces = append(traces, b.Exemplar.Label[0].GetValue())
			if b.Exemplar.GetValue() > b.GetUpperBound() {
				t.Errorf("the exemplar %v is in the bucket up to %v", b.Exemplar, b.GetUpperBound())
			}
		}
	}
	if !slices.Equal(traces, []string{"a1", "b2"}) || len(got.Exemplars) != 2 {
		t.Errorf("exemplars %v, and %d native ones", traces, len(got.Exemplars))
	}
}

// traceOf returns the tracing of a request at a time.
func traceOf(id string, now time.Duration) *tracing {
	return &tracing{of: func(context.Context) string { return id }, now: int64(now)}
}

// An exemplar is taken each second, and the next one replaces it. A request without a trace takes
// nobody's place.
func TestOneExemplarEachSecond(t *testing.T) {
	t.Parallel()
	h := newHistogram(&checkBounds)
	for _, step := range []struct {
		id   string
		at   time.Duration
		want string
	}{
		{"a", 0, "a"},
		{"b", 999 * time.Millisecond, "a"},
		{"", time.Second, "a"},
		{"not one", time.Second, "a"},
		{"c", time.Second, "c"},
		{"d", 1999 * time.Millisecond, "c"},
		{"e", time.Hour, "e"},
	} {
		h.observe(time.Millisecond, traceOf(step.id, step.at))
		if got := h.write().Exemplars; len(got) != 1 || got[0].Label[0].GetValue() != step.want {
			t.Errorf("after %q at %v: %v, want %s", step.id, step.at, got, step.want)
		}
	}
}

func TestTracesThatAreNone(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"4bf92f3577b34da6a3ce929d0e0e4736": "4bf92f3577b34da6a3ce929d0e0e4736", "1-5759e988-bd862e3fe1be46a994272793": "1-5759e988-bd862e3fe1be46a994272793",
		"": "", "a b": "", "\xff": "", "a\nb": "", "user@example.com": "", string(make([]byte, 200)): "",
	} {
		check.Equal(t, fmt.Sprintf("%q", id), validTrace(id), want)
	}
}
