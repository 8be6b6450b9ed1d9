package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/weblimit/weblimit/core"
)

// rateLimiting are metrics in the shape of aspnetcore.rate_limiting.*, the only ones about rate limits that
// OpenTelemetry's semantic conventions have. The names are ours: those belong to ASP.NET Core, and a value under
// them would be taken for one of its servers.
//
// Two of the five are missing, active_request_leases and request_lease.duration: a limit holds something while a
// request runs only if it is a concurrency limit, and an observer does not hear of slots that end with their lease.
type rateLimiting struct {
	on       bool
	requests metric.Int64Counter
	inQueue  metric.Float64Histogram
}

// rateLimitingBounds are those of the conventions, in seconds.
var rateLimitingBounds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

// make makes the instruments. Queues are those of limiters, which are read when metrics are collected.
func (s *rateLimiting) make(m metric.Meter, of *policies) error {
	var failed [4]error
	s.requests, failed[0] = m.Int64Counter("weblimit.rate_limiting.requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that asked a limit."))
	s.inQueue, failed[1] = m.Float64Histogram("weblimit.rate_limiting.request.time_in_queue", metric.WithUnit("s"),
		metric.WithDescription("How long requests waited for their turn."), metric.WithExplicitBucketBoundaries(rateLimitingBounds...))
	queued, err := m.Int64ObservableUpDownCounter("weblimit.rate_limiting.queued_requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that wait for their turn."))
	if failed[2] = err; err == nil {
		_, failed[3] = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
			var waiting int64
			for _, l := range of.alive() {
				waiting += l.Stats().Waiting
			}
			to.ObserveInt64(queued, waiting)
			return nil
		}, queued)
	}
	return errors.Join(failed[:]...)
}

// measure records a decision. One that was made without a limit asked for no lease.
func (s *rateLimiting) measure(ctx context.Context, seen *core.Observation, limit *series) {
	if seen.Decision.Reason == core.ReasonBypassed {
		return
	}
	of := &limit.results[resultOf(seen.Decision)]
	s.requests.Add(ctx, 1, of.add...)
	if seen.WaitTime > 0 {
		s.inQueue.Record(ctx, seen.WaitTime.Seconds(), of.record...)
	}
}

// The results of the conventions but global_limiter: a denial has the name of a limit, as those of endpoints
// have, and a limit does not know how much of an application it is for.
const (
	acquired = iota
	endpointLimiter
	requestCanceled
)

var results = [...]string{acquired: "acquired", endpointLimiter: "endpoint_limiter", requestCanceled: "request_canceled"}

func resultOf(d *core.Decision) int {
	switch {
	case d.Allowed:
		return acquired
	case d.Reason == core.ReasonCanceled:
		return requestCanceled
	default:
		return endpointLimiter
	}
}

// resultOptions is the attribute set of a limit's decisions with one result.
type resultOptions struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// byResult makes the attribute sets of a limit.
func byResult(limit string) (all [len(results)]resultOptions) {
	for i, result := range results {
		set := setOf(attrPolicy.String(limit), attrResult.String(result))
		all[i] = resultOptions{[]metric.AddOption{set}, []metric.RecordOption{set}}
	}
	return all
}
