package prometheus

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// Observer counts what limiters decide: set it as core.Config.Observe, of as many limiters and
// stores as you like. It is a prometheus.Collector that [New] has registered. It is safe for
// concurrent use.
type Observer struct {
	config  Config
	metrics metrics

	recent   recent[limitSeries]
	limits   atomic.Pointer[map[string]*limitSeries] // by name; copied on write
	growing  sync.Mutex                              // held while limits or their series are added
	limiters limiters
	stores   stores
	books    bookEvents

	topPanics sync.Once // logged once
}

var (
	_ core.Observer        = (*Observer)(nil)
	_ prometheus.Collector = (*Observer)(nil)
)

// Attached implements [core.Observer].
func (o *Observer) Attached(l *core.Limiter) { o.limiters.add(l) }

// Decided implements [core.Observer].
func (o *Observer) Decided(ctx context.Context, seen *core.Observation) {
	d, route, trace := seen.Decision, "", o.tracingOf(ctx, seen)
	if !o.config.WithoutRoutes {
		route = seen.Route()
	}
	of := o.limit(seen.Limit())
	at := of.route(route)
	of.decided(at, d, &trace)
	if seen.CheckTime > 0 {
		of.check.observe(seen.CheckTime, &trace)
	}
	if !d.Allowed && d.RetryAfter > 0 {
		of.retryAfter.observe(d.RetryAfter, &trace)
	}
	if seen.WaitTime > 0 {
		of.wait.observe(seen.WaitTime, &trace)
	}
	for i, results := 0, d.Results(); i < len(results); i++ {
		r := &results[i]
		if r.Rule.Name == of.name {
			of.said(at, r, d)
			continue
		}
		other := o.limit(r.Rule.Name)
		other.said(other.route(route), r, d)
	}
	if d.Err != nil {
		o.stores.failed(&o.metrics, d.Err, true)
	}
}

// Settled implements [core.Observer].
func (o *Observer) Settled(s core.Settlement) {
	if s.Err != nil {
		o.stores.failed(&o.metrics, s.Err, false)
	}
	o.limit(s.Rule.Name).settled(&s)
}

// StoreEvent implements [core.Observer]. Errors are counted where they changed a decision.
func (o *Observer) StoreEvent(e core.Event) {
	switch e.Kind {
	case store.EventBreakerOpened:
		o.metrics.breakerOpened.WithLabelValues(o.stores.breaker(e.Node, true)).Inc()
	case store.EventBreakerClosed:
		o.stores.breaker(e.Node, false)
	case store.EventOutageEnded:
		if e.Slow() {
			o.metrics.slow.Inc()
		} else {
			o.metrics.outages.Inc()
		}
	default:
		o.books.event(&o.metrics, &e)
	}
}

// Describe implements prometheus.Collector.
func (o *Observer) Describe(to chan<- *prometheus.Desc) {
	for _, c := range o.metrics.kept {
		c.Describe(to)
	}
	for _, d := range o.metrics.others {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (o *Observer) Collect(to chan<- prometheus.Metric) {
	for _, c := range o.metrics.kept {
		c.Collect(to)
	}
	for _, of := range *o.limits.Load() {
		of.collect(&o.metrics, to)
	}
	o.stores.collect(&o.metrics, to)
	o.books.collect(&o.metrics, to)
	o.limiters.collect(&o.metrics, to)
	o.collectTopDenied(to)
}

// collectTopDenied calls a function of the application. A scrape runs on goroutines of its own,
// where a panic would end the process.
func (o *Observer) collectTopDenied(to chan<- prometheus.Metric) {
	if o.config.TopDenied == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			o.topPanics.Do(func() { slog.Error("weblimit: prometheus.Config.TopDenied panics", "panic", p) })
		}
	}()
	to <- prometheus.MustNewConstMetric(o.metrics.topDenied, prometheus.GaugeValue, o.config.TopDenied())
}
