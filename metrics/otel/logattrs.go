package otel

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogAttrs returns the trace and the span of a context as attributes of a log line, under the names
// that OpenTelemetry has for them there: trace_id and span_id. It returns none if there is no
// trace. It fits Config.Attrs of metrics/slog.
func LogAttrs(ctx context.Context) []slog.Attr {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return nil
	}
	return []slog.Attr{
		slog.String("trace_id", span.TraceID().String()),
		slog.String("span_id", span.SpanID().String()),
	}
}
