package prometheus

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/core/store"
)

// configured are the limits that stores are told of, by name. Its zero value is ready to use. Of two stores that have limits of
// one name, the first is shown.
type configured map[string]store.Rule

func (c *configured) add(registry *store.Registry) {
	if *c == nil {
		*c = configured{}
	}
	for _, d := range registry.Declarations() {
		if _, known := (*c)[d.Rule.Name]; !known {
			(*c)[d.Rule.Name] = d.Rule
		}
	}
}

// collect tells their numbers, of maxLimits limits at most: the first by name.
func (c configured) collect(m *metrics, to chan<- prometheus.Metric) {
	for i, name := range slices.Sorted(maps.Keys(c)) {
		if i == maxLimits {
			return
		}
		rule := c[name]
		gauge := func(d *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, name)
		}
		gauge(m.limitQuota, float64(rule.Quota))
		gauge(m.limitBurst, float64(rule.Burst))
		if rule.Algorithm != store.Calendar && rule.Algorithm != store.Ledger && rule.Algorithm != store.Concurrency {
			gauge(m.limitWindow, rule.Window.Seconds())
		}
	}
}
