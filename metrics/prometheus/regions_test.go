package prometheus_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store/regional"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// What stores of regions count is added up by region and limit, once for each store, also where several limiters have
// one.
func TestRegionsAreMeasured(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	names := []string{
		"weblimit_region_units_total", "weblimit_region_messages_total", "weblimit_region_leases_failed_total", "weblimit_region_waited_total",
		"weblimit_region_denied_early_total", "weblimit_region_keys", "weblimit_region_home_away", "weblimit_region_home_trip_seconds",
	}
	tested := core.NewMemory()
	for _, name := range []string{"a", "b"} {
		limiter(t, core.Config{Store: tested, Observe: observer, Limits: []core.Limit{perUser(core.PerHour(3)).Named(name)}})
	}
	wantValues(t, registry, names) // it is no store of a region
	stats := regional.Stats{
		Region: "eu\xff", Keys: 3, Home: regional.Home{Trip: 80 * time.Millisecond},
		Limits: map[string]regional.Counts{"user": {Messages: 1, Failed: 2, Crowded: 3, Leased: 4, Spent: 5, Lost: 6, Skewed: 7, Told: 8, Waited: 9, Early: 10}},
	}
	regional.Add(tested.Registry(), func() regional.Stats { return stats })
	away := stats
	away.Home.Away = time.Now()
	remove := regional.Add(tested.Registry(), func() regional.Stats { return away })
	wantValues(t, registry, names,
		`region_denied_early_total{limit="user",region="eu?"} 20`,
		`region_home_away{region="eu?"} 1`,
		`region_home_trip_seconds{region="eu?"} 0.08`,
		`region_keys{region="eu?"} 6`,
		`region_leases_failed_total{limit="user",reason="crowded",region="eu?"} 6`,
		`region_leases_failed_total{limit="user",reason="unanswered",region="eu?"} 4`,
		`region_messages_total{limit="user",region="eu?"} 2`,
		`region_units_total{kind="leased",limit="user",region="eu?"} 8`,
		`region_units_total{kind="lost",limit="user",region="eu?"} 12`,
		`region_units_total{kind="returned",limit="user",region="eu?"} 14`,
		`region_units_total{kind="spent",limit="user",region="eu?"} 10`,
		`region_units_total{kind="told",limit="user",region="eu?"} 16`,
		`region_waited_total{limit="user",region="eu?"} 18`,
	)
	remove()
	wantValues(t, registry, []string{"weblimit_region_home_away"}, `region_home_away{region="eu?"} 0`)
}
