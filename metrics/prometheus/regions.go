package prometheus

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/core/store/regional"
)

// regionMetrics are those of the numbers that stores of regions tell.
type regionMetrics struct {
	units, messages, failed, waited, early, keys, away, trip *prometheus.Desc
}

func newRegionMetrics(desc func(name, help string, by ...string) *prometheus.Desc) regionMetrics {
	return regionMetrics{
		units:    desc("region_units_total", "Units that a region has leased from home, and what came of them.", "region", "limit", "kind"),
		messages: desc("region_messages_total", "Questions of a region to home.", "region", "limit"),
		failed:   desc("region_leases_failed_total", "Leases that came to nothing, by reason: unanswered by home, or crowded since too many were under way.", "region", "limit", "reason"),
		waited:   desc("region_waited_total", "Requests that waited for home.", "region", "limit"),
		early:    desc("region_denied_early_total", "Requests that were denied although home may have had units.", "region", "limit"),
		keys:     desc("region_keys", "Keys above the floor of their region that this process remembers.", "region"),
		away:     desc("region_home_away", "Whether home does not answer, so that the region lives on its floors and on what it has leased.", "region"),
		trip:     desc("region_home_trip_seconds", "How long a question to home took lately.", "region"),
	}
}

func (m *regionMetrics) collect(all []regional.Stats, to chan<- prometheus.Metric) {
	for _, s := range regional.Sum(all) {
		region := strings.ToValidUTF8(s.Region, "?")
		for limit, c := range s.Limits {
			m.count(region, strings.ToValidUTF8(limit, "?"), &c, to)
		}
		away := 0.0
		if !s.Home.Away.IsZero() {
			away = 1
		}
		for d, value := range map[*prometheus.Desc]float64{m.keys: float64(s.Keys), m.away: away, m.trip: s.Home.Trip.Seconds()} {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, region)
		}
	}
}

func (m *regionMetrics) count(region, limit string, c *regional.Counts, to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for kind, n := range map[string]int64{"leased": c.Leased, "spent": c.Spent, "lost": c.Lost, "returned": c.Skewed, "told": c.Told} {
		send(m.units, n, region, limit, kind)
	}
	for reason, n := range map[string]int64{"unanswered": c.Failed, "crowded": c.Crowded} {
		send(m.failed, n, region, limit, reason)
	}
	send(m.messages, c.Messages, region, limit)
	send(m.waited, c.Waited, region, limit)
	send(m.early, c.Early, region, limit)
}
