package otel_test

import (
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/must"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

// configured returns the measurements of configured limits, and takes them away from all others.
func configured(measured map[string]string) map[string]string {
	found := map[string]string{}
	maps.DeleteFunc(measured, func(name, value string) bool {
		is := strings.HasPrefix(name, "weblimit.limit.")
		if is {
			found[name] = value
		}
		return is
	})
	return found
}

// The numbers are those that decide now: a policy file may change them.
func TestConfiguredLimitsAreMeasured(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	var live compose.Live
	config := core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{core.PerMinute(60).Burst(5).By(everyone).Named("rate"), core.PerMonth(1000, time.UTC).By(everyone).Named("plan")}}
	l := must.Get(live.Limiter(config))(t)
	wantMetrics(t, configured(seen.all(t)),
		"weblimit.limit.burst{limit=plan} 1000", "weblimit.limit.burst{limit=rate} 5", "weblimit.limit.quota{limit=plan} 1000", "weblimit.limit.quota{limit=rate} 60",
		"weblimit.limit.window{limit=rate} 60")
	config.Limits = []core.Limit{core.PerHour(70).By(everyone).Named("rate")}
	must.OK(t, live.Replace(config))
	wantMetrics(t, configured(seen.all(t)), "weblimit.limit.burst{limit=rate} 70", "weblimit.limit.quota{limit=rate} 70", "weblimit.limit.window{limit=rate} 3600")
	runtime.KeepAlive(l)
}
