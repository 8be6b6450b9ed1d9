package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
)

// regions are the instruments of stores of regions, which are read when metrics are collected.
type regions struct {
	units, messages, failed, waited, early metric.Int64ObservableCounter
	keys, away                             metric.Int64ObservableGauge
	trip                                   metric.Float64ObservableGauge
}

// make makes the instruments, for the stores of limiters.
func (g *regions) make(m metric.Meter, of *policies) error {
	var failed []error
	counter := func(name, unit, what string) metric.Int64ObservableCounter {
		c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		failed = append(failed, err)
		return c
	}
	gauge := func(name, unit, what string) metric.Int64ObservableGauge {
		c, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
		failed = append(failed, err)
		return c
	}
	g.units = counter("weblimit.region.units", "{unit}", "Units that a region has leased from home, and what came of them.")
	g.messages = counter("weblimit.region.messages", "{message}", "Questions of a region to home.")
	g.failed = counter("weblimit.region.leases.failed", "{lease}", "Leases that came to nothing: unanswered by home, or crowded since too many were under way.")
	g.waited = counter("weblimit.region.waited", "{request}", "Requests that waited for home.")
	g.early = counter("weblimit.region.denied_early", "{request}", "Requests that were denied although home may have had units.")
	g.keys = gauge("weblimit.region.keys", "{key}", "Keys above the floor of their region that this process remembers.")
	g.away = gauge("weblimit.region.home.away", "1", "Whether home does not answer, so that the region lives on its floors and on what it has leased.")
	trip, err := m.Float64ObservableGauge("weblimit.region.home.trip", metric.WithUnit("s"), metric.WithDescription("How long a question to home took lately."))
	g.trip = trip
	if err := errors.Join(append(failed, err)...); err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		known := map[*store.Registry]bool{}
		var all []regional.Stats
		for _, l := range of.alive() {
			if registry := l.Store().Registry().Root(); !known[registry] {
				known[registry] = true
				all = append(all, regional.All(registry)...)
			}
		}
		for _, s := range regional.Sum(all) {
			g.observe(&s, to)
		}
		return nil
	}, g.units, g.messages, g.failed, g.waited, g.early, g.keys, g.away, g.trip)
	return err
}

func (g *regions) observe(s *regional.Stats, to metric.Observer) {
	region := attrRegion.String(valid(s.Region))
	for limit, c := range s.Limits {
		of := metric.WithAttributes(region, attrLimit.String(valid(limit)))
		for kind, n := range map[string]int64{"leased": c.Leased, "spent": c.Spent, "lost": c.Lost, "returned": c.Skewed, "told": c.Told} {
			to.ObserveInt64(g.units, n, of, metric.WithAttributes(attrUnits.String(kind)))
		}
		for reason, n := range map[string]int64{"unanswered": c.Failed, "crowded": c.Crowded} {
			to.ObserveInt64(g.failed, n, of, metric.WithAttributes(attrReason.String(reason)))
		}
		to.ObserveInt64(g.messages, c.Messages, of)
		to.ObserveInt64(g.waited, c.Waited, of)
		to.ObserveInt64(g.early, c.Early, of)
	}
	away := int64(0)
	if !s.Home.Away.IsZero() {
		away = 1
	}
	to.ObserveInt64(g.keys, s.Keys, metric.WithAttributes(region))
	to.ObserveInt64(g.away, away, metric.WithAttributes(region))
	to.ObserveFloat64(g.trip, s.Home.Trip.Seconds(), metric.WithAttributes(region))
}
