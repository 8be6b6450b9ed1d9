package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
)

// sinks are what the application emits to. To add one, add a line.
var sinks = []struct {
	name string
	open func(t *testing.T, store core.Store) *sink
	has  string // what it must have emitted, or the test sees nothing
}{
	{"log/slog", openSlog, `"limit":"login"`},
	{"OpenTelemetry", openOTel, `weblimit.denied`},
	{"Prometheus", openPrometheus, `# {trace_id="` + traceID + `"}`},
	{"the operator's page", openInspect, `"msg":"weblimit: inspect action","action":"reset"`},
}

// sink is one of them in a run.
type sink struct {
	observer core.Observer
	wrap     func(http.Handler) http.Handler // around the application, or nil
	emitted  func() string                   // all of it, at the end
}

// openSlog writes each line twice, as text and as JSON.
func openSlog(t *testing.T, _ core.Store) *sink {
	out := new(child.Output)
	var both []core.Observer
	var flush []func()
	for _, handler := range []slog.Handler{slog.NewJSONHandler(out, nil), slog.NewTextHandler(out, nil)} {
		o := must.Get(weblimitslog.New(weblimitslog.Config{Logger: slog.New(handler), Attrs: weblimitotel.LogAttrs}))(t)
		both, flush = append(both, o), append(flush, o.Flush)
	}
	return &sink{observer: core.Observers(both...), emitted: func() string {
		for _, f := range flush {
			f()
		}
		return out.String()
	}}
}

// openOTel has a span around each request, which is sampled.
func openOTel(t *testing.T, _ core.Store) *sink {
	reader, spans := metric.NewManualReader(), tracetest.NewInMemoryExporter()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	traces := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	o := must.Get(weblimitotel.New(weblimitotel.Config{MeterProvider: meters, TracerProvider: traces}))(t)
	tracer := traces.Tracer("test")
	return &sink{
		observer: o,
		wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, span := tracer.Start(r.Context(), "request")
				defer span.End()
				next.ServeHTTP(w, r.WithContext(ctx))
			})
		},
		emitted: func() string {
			var data metricdata.ResourceMetrics
			must.OK(t, reader.Collect(context.Background(), &data))
			var all bytes.Buffer
			for _, emitted := range []any{data, spans.GetSpans()} {
				text := must.Get(json.Marshal(emitted))(t)
				all.Write(text)
				all.WriteByte('\n')
			}
			return all.String()
		},
	}
}
