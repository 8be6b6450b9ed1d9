package otel

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// Observer measures and traces what limiters decide. Set it as Config.Observe of any number of
// limiters. It is safe for concurrent use, and nothing has to be closed.
type Observer struct {
	core.NopObserver
	instruments
	unmeasured    bool // there is no meter
	tracer        trace.Tracer
	maxSeries     int
	withoutRoutes bool

	limits       cache[string, *series]
	health       health
	policies     policies
	regions      regions
	rateLimiting rateLimiting
}

var _ core.Observer = (*Observer)(nil)

// Decided implements [core.Observer].
func (o *Observer) Decided(ctx context.Context, seen *core.Observation) {
	if !o.unmeasured {
		o.measure(ctx, seen)
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		o.trace(ctx, span, seen)
	}
}

// measure records the metrics of a decision.
func (o *Observer) measure(ctx context.Context, seen *core.Observation) {
	d, limit := seen.Decision, o.limit(seen.Limit())
	of := outcome{adapter: seen.Adapter, reason: d.Reason, allowed: d.Allowed}
	if !o.withoutRoutes {
		of.route = seen.Route()
	}
	o.decisions.Add(ctx, 1, limit.decided(of, o.maxSeries)...)
	if o.rateLimiting.on {
		o.rateLimiting.measure(ctx, seen, limit)
	}
	if seen.CheckTime > 0 {
		o.check.Record(ctx, seen.CheckTime.Seconds(), limit.checked(d.Err)...)
	}
	if seen.WaitTime > 0 {
		o.wait.Record(ctx, seen.WaitTime.Seconds(), limit.record...)
	}
	if !d.Allowed && d.RetryAfter > 0 {
		o.retryAfter.Record(ctx, d.RetryAfter.Seconds(), limit.record...)
	}
	for i, results := 0, d.Results(); i < len(results); i++ {
		if r := &results[i]; r.Standing != store.Undivided && r.Enforced() {
			o.shares.Add(ctx, 1, o.limit(r.Rule.Name).share(r)...)
		}
	}
	for i := range wouldDeny(d) {
		o.wouldBeDenied.Add(ctx, 1, o.limit(d.Results()[i].Rule.Name).wouldBeDenied(of.route, o.maxSeries)...)
	}
}

// wouldDeny yields which results are those of limits in shadow mode that would have denied the request.
func wouldDeny(d *core.Decision) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if d.Reason == core.ReasonWithinLimit {
			return // else it would be ReasonShadowed
		}
		results := d.Results()
		for i := range results {
			if results[i].Shadow && !results[i].Allowed && !yield(i) {
				return
			}
		}
	}
}

// Settled implements [core.Observer]. A settlement has metrics and no span: it happens in the
// background, when the request's own span has ended, and to link the two, each reservation
// would have to keep its request's context until then.
func (o *Observer) Settled(s core.Settlement) {
	if o.unmeasured {
		return
	}
	if s.Forgiven > 0 {
		o.settled(s.Rule.Name, forgiven, s.Forgiven)
	}
	switch units := s.Units - s.Forgiven; {
	case s.Err != nil:
		o.settled(s.Rule.Name, unknown, max(s.Units, -s.Units))
	case s.Units < 0:
		o.settled(s.Rule.Name, refunded, -s.Units)
	case units > 0 || s.Forgiven == 0:
		o.settled(s.Rule.Name, charged, units)
	}
}

// settled counts units of a settlement.
func (o *Observer) settled(limit string, kind int, units int64) {
	ctx, options := context.Background(), o.limit(limit).settled[kind]
	o.settlements.Add(ctx, 1, options...)
	o.settledUnits.Add(ctx, units, options...)
}
