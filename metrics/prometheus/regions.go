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

// regionSeries adds up the numbers of all stores of regions, by region and limit. Its zero value is ready to use.
type regionSeries struct {
	counts map[[2]string]regional.Counts // by region and limit
	now    map[string]regionNow          // by region
}

// regionNow is how a region is now.
type regionNow struct {
	keys, away, trip float64
}

func (s *regionSeries) add(all []regional.Stats) {
	for i := range all {
		if s.now == nil {
			s.counts, s.now = map[[2]string]regional.Counts{}, map[string]regionNow{}
		}
		stats := &all[i]
		region := strings.ToValidUTF8(stats.Region, "?")
		for limit, counts := range stats.Limits {
			by := [2]string{region, strings.ToValidUTF8(limit, "?")}
			counts.Add(s.counts[by])
			s.counts[by] = counts
		}
		now := s.now[region]
		now.keys += float64(stats.Keys)
		now.trip = max(now.trip, stats.Home.Trip.Seconds())
		if !stats.Home.Away.IsZero() {
			now.away = 1
		}
		s.now[region] = now
	}
}

func (s *regionSeries) collect(m *regionMetrics, to chan<- prometheus.Metric) {
	for by, c := range s.counts {
		count := func(d *prometheus.Desc, n int64, more ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append(by[:2:2], more...)...)
		}
		count(m.units, c.Leased, "leased")
		count(m.units, c.Spent, "spent")
		count(m.units, c.Lost, "lost")
		count(m.units, c.Skewed, "returned")
		count(m.units, c.Told, "told")
		count(m.messages, c.Messages)
		count(m.failed, c.Failed, "unanswered")
		count(m.failed, c.Crowded, "crowded")
		count(m.waited, c.Waited)
		count(m.early, c.Early)
	}
	for region, now := range s.now {
		for d, value := range map[*prometheus.Desc]float64{m.keys: now.keys, m.away: now.away, m.trip: now.trip} {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, region)
		}
	}
}
