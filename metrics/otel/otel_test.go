package otel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

// sdk is an observer with an SDK that keeps everything in memory.
type sdk struct {
	*weblimitotel.Observer
	reader *metric.ManualReader
	meters *metric.MeterProvider
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
}

func newSDK(t testing.TB, config weblimitotel.Config, options ...sdktrace.TracerProviderOption) *sdk {
	t.Helper()
	s := &sdk{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	s.meters = metric.NewMeterProvider(metric.WithReader(s.reader))
	s.traces = sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(s.spans))...)
	config.MeterProvider, config.TracerProvider = s.meters, s.traces
	s.Observer = must.Get(weblimitotel.New(config))(t)
	return s
}

// in runs f in a span, as a handler would.
func (s *sdk) in(f func(context.Context)) {
	ctx, span := s.traces.Tracer("test").Start(context.Background(), "GET /items/:id")
	defer span.End()
	f(ctx)
}

// metrics returns what was measured: counters as numbers, histograms as "n in sum".
func (s *sdk) metrics(t testing.TB) map[string]string {
	t.Helper()
	all := s.all(t)
	configured(all)
	return all
}

// all are these and the numbers of configured limits.
func (s *sdk) all(t testing.TB) map[string]string {
	t.Helper()
	var data metricdata.ResourceMetrics
	must.OK(t, s.reader.Collect(context.Background(), &data))
	return numbers(data)
}

func numbers(data metricdata.ResourceMetrics) map[string]string {
	all := map[string]string{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			values := func(points []metricdata.DataPoint[int64]) {
				for _, p := range points {
					all[m.Name+text(p.Attributes.ToSlice())] = fmt.Sprint(p.Value)
				}
			}
			switch points := m.Data.(type) {
			case metricdata.Sum[int64]:
				values(points.DataPoints)
			case metricdata.Gauge[int64]:
				values(points.DataPoints)
			case metricdata.Gauge[float64]:
				for _, p := range points.DataPoints {
					all[m.Name+text(p.Attributes.ToSlice())] = fmt.Sprint(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range points.DataPoints {
					all[m.Name+text(p.Attributes.ToSlice())] = fmt.Sprintf("%d in %gs", p.Count, p.Sum)
				}
			}
		}
	}
	return all
}

// text writes attributes without what their names share: {limit=user reason=within_limit}.
func text(attrs []attribute.KeyValue) string {
	var all []string
	for _, a := range attrs {
		all = append(all, strings.TrimPrefix(string(a.Key), "weblimit.")+"="+a.Value.String())
	}
	slices.Sort(all)
	return "{" + strings.Join(all, " ") + "}"
}

func wantMetrics(t testing.TB, got map[string]string, want ...string) {
	t.Helper()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		lines = append(lines, name+" "+got[name])
	}
	slices.Sort(want)
	check.Equal(t, "measured", strings.Join(lines, "\n"), strings.Join(want, "\n"))
}

// request is a request of an adapter.
type request struct {
	keyfuncs.Values

	ctx   context.Context
	route string
}

func (r *request) Context() context.Context { return r.ctx }
func (r *request) Route() (string, bool)    { return r.route, true }

func newLimiter(t testing.TB, config core.Config) *core.Limiter {
	t.Helper()
	return must.Get(core.New(config))(t)
}

// slow is a store that takes a while, and fails while err is set.
type slow struct {
	*core.Memory

	takes time.Duration
	err   error
}

func newSlow(takes time.Duration, err error) *slow {
	s := &slow{core.NewMemory(), takes, err}
	s.OnEvent(func(core.Event) {}) // or each test would log
	return s
}

func (s *slow) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	time.Sleep(s.takes) // in a bubble
	if s.err != nil {
		return s.err
	}
	return s.Memory.Take(ctx, checks, results)
}

func (s *slow) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	if s.err != nil {
		return s.err
	}
	return s.Memory.Refund(ctx, checks, results)
}

var everyone = keyfuncs.Everyone()

var errDown = &store.Error{Class: store.ClassReadOnly, Node: "10.0.0.7:6379", Err: errors.New("READONLY")}

// ask decides a request as an adapter does.
func ask(ctx context.Context, l *core.Limiter, route string) {
	r := &request{ctx: ctx, route: route}
	adapter.New(l, "gin").Decide(r, new(adapter.Context), nil)
}
