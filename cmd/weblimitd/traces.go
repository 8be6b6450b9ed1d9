package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weblimit/weblimit/core"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

// tracing is what variables of envoyproxy/ratelimit say of traces. Those of OpenTelemetry win.
type tracing struct {
	off        bool
	attributes []attribute.KeyValue
	sampler    sdktrace.Sampler // nil for that of OpenTelemetry
}

// traces sends spans by OTLP over HTTP, as the variables of OpenTelemetry say. A nil traces sends none.
type traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	observer core.Observer
}

// tracesTo reports whether spans are to be sent.
func tracesTo(env func(string) string) bool {
	return (env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "") &&
		!strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") && env("OTEL_TRACES_EXPORTER") != "none"
}

// newTraces returns nil unless OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set.
// The libraries of OpenTelemetry read the other variables.
func newTraces(ctx context.Context, env func(string) string, by tracing, instance string, log *slog.Logger) (*traces, error) {
	if by.off || !tracesTo(env) {
		return nil, nil
	}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := env(variable); protocol != "" && protocol != "http/protobuf" {
			return nil, fmt.Errorf("%s: weblimitd speaks http/protobuf, whose port is 4318 as a rule", variable)
		}
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { // at most one per batch
		log.Warn("weblimitd: spans are lost", "error", err.Error())
	}))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT can't be used") // the error may repeat headers
	}
	names := []attribute.KeyValue{attribute.String("service.name", "weblimitd"), attribute.String("service.version", core.Version()), attribute.String("service.instance.id", instance)}
	service, err := resource.New(ctx, resource.WithAttributes(append(names, by.attributes...)...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(service)}
	if by.sampler != nil {
		options = append(options, sdktrace.WithSampler(by.sampler))
	}
	t := &traces{provider: sdktrace.NewTracerProvider(options...)}
	t.tracer = t.provider.Tracer("github.com/weblimit/weblimit/cmd/weblimitd")
	// Prometheus has the metrics.
	if t.observer, err = weblimitotel.New(weblimitotel.Config{TracerProvider: t.provider, MeterProvider: noop.NewMeterProvider()}); err != nil {
		return nil, err
	}
	return t, nil
}

var propagator = propagation.TraceContext{}

// begin starts the span of a request. The caller's trace goes on in it; that of a gateway's client does
// not, since a client could have all of its requests recorded.
func (t *traces) begin(m *mount, r *http.Request) (*http.Request, func(status int)) {
	if t == nil {
		return r, func(int) {}
	}
	ctx := r.Context()
	if !m.gateway {
		ctx = propagator.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	ctx, span := t.tracer.Start(ctx, m.name, trace.WithSpanKind(trace.SpanKindServer))
	return r.WithContext(ctx), func(status int) {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// close sends what is left.
func (t *traces) close(ctx context.Context) {
	if t != nil {
		_ = t.provider.Shutdown(ctx) // the collector may be away
	}
}
