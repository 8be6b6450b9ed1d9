package otel

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// Names of spans and events.
const (
	spanCheck          = "weblimit.check"
	spanWait           = "weblimit.wait"
	eventDenied        = "weblimit.denied"
	eventWouldBeDenied = "weblimit.would_be_denied"
)

// shortestCheck is the shortest check that becomes a span. Those in memory and those that the
// Redis store answers without Redis are shorter: they are no round trips.
const shortestCheck = 10 * time.Microsecond

// trace describes a decision on the span of its request, which records, and in child spans.
func (o *Observer) trace(ctx context.Context, span trace.Span, seen *core.Observation) {
	d := seen.Decision
	attrs := make([]attribute.KeyValue, 0, 6)
	attrs = append(attrs, attrDecision.String(decisionWord(d.Allowed)), attrReason.String(word(d.Reason.String())))
	if limit := seen.Limit(); limit != "" {
		attrs = append(attrs, attrLimit.String(valid(limit)))
	}
	if !d.Allowed {
		event := slices.Clip(attrs) // which grows below
		if d.RetryAfter > 0 {
			event = append(event, attrRetryAfter.Int64(milliseconds(d.RetryAfter)))
		}
		span.AddEvent(eventDenied, trace.WithAttributes(event...))
	}
	for i := range wouldDeny(d) {
		r := &d.Results()[i]
		event := []attribute.KeyValue{attrLimit.String(valid(r.Rule.Name)), attrReason.String(word(r.DenialReason().String()))}
		if r.RetryAfter > 0 {
			event = append(event, attrRetryAfter.Int64(milliseconds(r.RetryAfter)))
		}
		span.AddEvent(eventWouldBeDenied, trace.WithAttributes(event...))
	}
	if version := d.Version(); version != "" {
		attrs = append(attrs, attrVersion.String(valid(version)))
	}
	if binding, ok := d.Binding(); ok {
		attrs = append(attrs, attrRemaining.Int64(binding.Remaining))
	}
	span.SetAttributes(attrs...)

	if seen.CheckTime > 0 && (seen.CheckTime >= shortestCheck || d.Err != nil) {
		o.traceCheck(ctx, seen)
	}
	if seen.WaitTime > 0 {
		o.traceWait(ctx, seen)
	}
}

// traceCheck makes the span of the store's round trip, which is over. If a request asked several
// times until its turn, there is one span, which begins with the first.
func (o *Observer) traceCheck(ctx context.Context, seen *core.Observation) {
	kind := trace.WithSpanKind(trace.SpanKindClient)
	_, span := o.tracer.Start(ctx, spanCheck, kind, trace.WithTimestamp(seen.CheckStart))
	if span.IsRecording() {
		if err := store.ErrorOf(seen.Decision.Err); err != nil {
			attrs := []attribute.KeyValue{attrErrorType.String(word(string(err.Class)))}
			if err.Node != "" {
				attrs = append(attrs, attrNode.String(valid(err.Node)))
			}
			span.SetAttributes(attrs...)
			span.SetStatus(codes.Error, valid(string(err.Class)))
		}
	}
	span.End(trace.WithTimestamp(seen.CheckEnd))
}

// traceWait makes the span of a request that waited for its turn, which ends now.
func (o *Observer) traceWait(ctx context.Context, seen *core.Observation) {
	now := time.Now()
	start := now.Add(-seen.WaitTime)
	if seen.CheckEnd.After(start) {
		start = seen.CheckStart // it asked and waited in turn
	}
	_, span := o.tracer.Start(ctx, spanWait, trace.WithTimestamp(start))
	span.End(trace.WithTimestamp(now))
}

// milliseconds rounds up: a client that waits that long is allowed.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
