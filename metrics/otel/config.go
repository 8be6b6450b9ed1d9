package otel

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"

	"github.com/weblimit/weblimit/core"
)

// scope is the name of the instrumentation scope, of the meter and the tracer.
const scope = "github.com/weblimit/weblimit/metrics/otel"

// Config sets up an [Observer]. Its zero value is ready to use.
type Config struct {
	// MeterProvider makes the meter of the metrics. Pass that of package metric/noop for none.
	// Defaults to the global one, which may be set later.
	MeterProvider metric.MeterProvider

	// TracerProvider makes the tracer of the spans of checks and waits. Pass that of package
	// trace/noop for none. The attributes and events of the request's own span do not depend on
	// it. Defaults to the global one, which may be set later.
	TracerProvider trace.TracerProvider

	// MaxSeries bounds how many attribute sets of weblimit.decisions one limit has. Decisions that
	// would need another one are counted with the route "other". An SDK has a bound of its own,
	// per instrument: 2000 by default. Defaults to 1000.
	MaxSeries int

	// WithoutRoutes leaves the route out. Some routers take a moment to tell the route.
	// Defaults to false.
	WithoutRoutes bool

	// RateLimiting adds metrics in the shape of aspnetcore.rate_limiting.*, which are stable in OpenTelemetry's
	// semantic conventions: weblimit.rate_limiting.requests and others, beside those of the package. Defaults to false.
	RateLimiting bool
}

const defaultMaxSeries = 1000

// New returns an observer. It fails if MaxSeries is negative, or if the meter refuses an
// instrument.
func New(config Config) (*Observer, error) {
	if config.MaxSeries < 0 {
		return nil, fmt.Errorf("weblimit: otel.Config.MaxSeries must be at least 1, got %d", config.MaxSeries)
	}
	if config.MaxSeries == 0 {
		config.MaxSeries = defaultMaxSeries
	}
	if config.MeterProvider == nil {
		config.MeterProvider = otel.GetMeterProvider()
	}
	if config.TracerProvider == nil {
		config.TracerProvider = otel.GetTracerProvider()
	}
	o := &Observer{
		maxSeries: config.MaxSeries, withoutRoutes: config.WithoutRoutes, rateLimiting: rateLimiting{on: config.RateLimiting},
		tracer: config.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(core.Version())),
	}
	_, o.unmeasured = config.MeterProvider.(noop.MeterProvider)
	if err := o.make(config.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(core.Version()))); err != nil {
		return nil, err
	}
	if o.unmeasured {
		return o, nil
	}
	meter := config.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(core.Version()))
	err := errors.Join(o.policies.make(meter), o.regions.make(meter, &o.policies))
	if o.rateLimiting.on {
		err = errors.Join(err, o.rateLimiting.make(meter, &o.policies))
	}
	if err != nil {
		return nil, fmt.Errorf("weblimit: otel: %w", err)
	}
	return o, nil
}

// Must returns the observer of [New], and panics if there was an error.
func Must(o *Observer, err error) *Observer {
	if err != nil {
		panic(err)
	}
	return o
}
