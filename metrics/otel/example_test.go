package otel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

// A denial is an event on the span of its request. An application that has set the global
// providers of OpenTelemetry needs no Config.
func ExampleNew() {
	spans := tracetest.NewSpanRecorder() // an exporter, in production
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))

	observer, err := weblimitotel.New(weblimitotel.Config{MeterProvider: meters, TracerProvider: traces})
	if err != nil {
		panic(err)
	}
	limiter := core.Must(core.New(core.Config{
		Store:   core.NewMemory(),
		Limits:  []core.Limit{core.PerMinute(1).By(keyfuncs.Tenant("tenant")).Named("tenant")},
		Observe: observer,
	}))

	ctx, job := traces.Tracer("worker").Start(context.Background(), "import")
	limiter.AllowKey(ctx, "tenant:42", 1)
	limiter.AllowKey(ctx, "tenant:42", 1)
	job.End()

	ended := spans.Ended()
	for _, event := range ended[len(ended)-1].Events() {
		fmt.Println(event.Name)
		for _, attr := range event.Attributes[:3] {
			fmt.Printf("  %s: %s\n", attr.Key, attr.Value.String())
		}
	}

	// At shutdown, after the server has stopped:
	_ = limiter.Drain(context.Background())
	_ = meters.Shutdown(context.Background())
	_ = traces.Shutdown(context.Background())
	// Output:
	// weblimit.denied
	//   weblimit.decision: denied
	//   weblimit.reason: limit_exceeded
	//   weblimit.limit: tenant
}
