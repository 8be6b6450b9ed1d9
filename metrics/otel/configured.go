package otel

import (
	"context"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/metric"

	"github.com/weblimit/weblimit/core/store"
)

// makeConfigured makes the instruments that tell the numbers of the configured limits, of maxConfigured at most: the first by
// name. Of two stores that have limits of one name, the first is told.
func (p *policies) makeConfigured(m metric.Meter) error {
	quota, err := m.Int64ObservableGauge("weblimit.limit.quota", metric.WithUnit("{unit}"), metric.WithDescription("The units per window of each configured limit, without tiers."))
	if err != nil {
		return err
	}
	burst, err := m.Int64ObservableGauge("weblimit.limit.burst", metric.WithUnit("{unit}"), metric.WithDescription("The units that can be used at once of each configured limit, without tiers."))
	if err != nil {
		return err
	}
	window, err := m.Float64ObservableGauge("weblimit.limit.window", metric.WithUnit("s"), metric.WithDescription("The window of each configured limit. Periods of the calendar and concurrent requests have none."))
	if err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		rules := p.configured()
		for i, name := range slices.Sorted(maps.Keys(rules)) {
			if i == maxConfigured {
				break
			}
			rule, limit := rules[name], metric.WithAttributes(attrLimit.String(name))
			to.ObserveInt64(quota, rule.Quota, limit)
			to.ObserveInt64(burst, rule.Burst, limit)
			if rule.Algorithm != store.Calendar && rule.Algorithm != store.Ledger && rule.Algorithm != store.Concurrency {
				to.ObserveFloat64(window, rule.Window.Seconds(), limit)
			}
		}
		return nil
	}, quota, burst, window)
	return err
}

// maxConfigured bounds the limits whose numbers are told.
const maxConfigured = 1000

// configured returns the limits that the limiters' stores are told of.
func (p *policies) configured() map[string]store.Rule {
	rules, known := map[string]store.Rule{}, map[*store.Registry]bool{}
	for _, l := range p.alive() {
		registry := l.Store().Registry().Root()
		if known[registry] {
			continue
		}
		known[registry] = true
		for _, d := range registry.Declarations() {
			if _, told := rules[d.Rule.Name]; !told {
				rules[d.Rule.Name] = d.Rule
			}
		}
	}
	return rules
}
