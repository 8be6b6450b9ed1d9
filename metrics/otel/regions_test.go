package otel_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store/regional"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

// What stores of regions count is measured once for each store, also where several limiters have one.
func TestRegionsAreMeasured(t *testing.T) {
	t.Parallel()
	seen, tested := newSDK(t, weblimitotel.Config{}), core.NewMemory()
	var limiters [2]*core.Limiter
	for i, name := range []string{"a", "b"} {
		limiters[i] = newLimiter(t, core.Config{Store: tested, Observe: seen, Limits: []core.Limit{core.PerHour(3).By(everyone).Named(name)}})
	}
	wantMetrics(t, seen.metrics(t)) // it is no store of a region
	regional.Add(tested.Registry(), func() regional.Stats {
		return regional.Stats{
			Region: "eu", Keys: 3, Home: regional.Home{Away: time.Now(), Trip: 80 * time.Millisecond},
			Limits: map[string]regional.Counts{"user": {Messages: 1, Failed: 2, Crowded: 3, Leased: 4, Spent: 5, Lost: 6, Skewed: 7, Told: 8, Waited: 9, Early: 10}},
		}
	})
	wantMetrics(t, seen.metrics(t),
		"weblimit.region.denied_early{limit=user region=eu} 10",
		"weblimit.region.home.away{region=eu} 1",
		"weblimit.region.home.trip{region=eu} 0.08",
		"weblimit.region.keys{region=eu} 3",
		"weblimit.region.leases.failed{limit=user reason=crowded region=eu} 3",
		"weblimit.region.leases.failed{limit=user reason=unanswered region=eu} 2",
		"weblimit.region.messages{limit=user region=eu} 1",
		"weblimit.region.units{limit=user region.units.kind=leased region=eu} 4",
		"weblimit.region.units{limit=user region.units.kind=lost region=eu} 6",
		"weblimit.region.units{limit=user region.units.kind=returned region=eu} 7",
		"weblimit.region.units{limit=user region.units.kind=spent region=eu} 5",
		"weblimit.region.units{limit=user region.units.kind=told region=eu} 8",
		"weblimit.region.waited{limit=user region=eu} 9",
	)
	runtime.KeepAlive(&limiters)
}
