package prometheus_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// The numbers are those that decide now: a policy file may change them. Limits of one name are one series.
func TestConfiguredLimits(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	var live compose.Live
	config := core.Config{Store: core.NewMemory(), Observe: observer, Limits: []core.Limit{
		perUser(core.PerMinute(60).Burst(5)).Named("rate"), perUser(core.PerMonth(1000, time.UTC)).Named("plan"), perUser(core.Concurrent(3)).Named("slots"),
	}}
	l := must.Get(live.Limiter(config))(t)
	other := limiter(t, core.Config{Store: core.NewMemory(), Observe: observer, Limits: []core.Limit{perUser(core.PerMinute(9)).Named("rate")}})
	names := []string{"weblimit_limit_quota", "weblimit_limit_burst", "weblimit_limit_window_seconds"}
	wantValues(t, registry, names,
		`limit_burst{limit="plan"} 1000`, `limit_burst{limit="rate"} 5`, `limit_burst{limit="slots"} 3`,
		`limit_quota{limit="plan"} 1000`, `limit_quota{limit="rate"} 60`, `limit_quota{limit="slots"} 3`,
		`limit_window_seconds{limit="rate"} 60`)
	config.Limits = []core.Limit{perUser(core.PerHour(70)).Named("rate")}
	must.OK(t, live.Replace(config))
	wantValues(t, registry, names, `limit_burst{limit="rate"} 70`, `limit_quota{limit="rate"} 70`, `limit_window_seconds{limit="rate"} 3600`)
	runtime.KeepAlive(l)
	runtime.KeepAlive(other)
}

func TestResultsOfClasses(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	l := limiter(t, core.Config{Store: core.NewMemory(), Observe: observer, Limits: []core.Limit{core.PerHour(4).By(keyfuncs.Everyone()).Named("api").Classes(
		core.Class{Name: "high", When: keyfuncs.Methods("POST"), Keep: 0.5}, core.Class{Name: "low"})}})
	for range 3 {
		l.Allow(keyfuncs.Values{"method": "GET"})
	}
	l.Allow(keyfuncs.Values{"method": "POST"})
	wantValues(t, registry, []string{"weblimit_class_results_total"},
		`class_results_total{class="high",limit="api",result="allowed"} 1`,
		`class_results_total{class="low",limit="api",result="allowed"} 2`,
		`class_results_total{class="low",limit="api",result="denied"} 1`)
}

// Each request counts by how its client stands to its share. One that has used more is denied, and shows as such.
func TestResultsOfShares(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	l := limiter(t, core.Config{Store: core.NewMemory(), Observe: observer, Limits: []core.Limit{core.PerHour(8).By(keyfuncs.Everyone()).Named("api").Fair(core.Shares{
		By: keyfuncs.Header("X-Client"), Guaranteed: 1, Of: func(r keyfuncs.Request) core.Share {
			switch keyfuncs.HeaderOf(r, "X-Client") {
			case "minimum":
				return core.Share{Minimum: 1}
			case "maximum":
				return core.Share{Maximum: 1}
			}
			return core.Share{}
		},
	})}})
	for _, client := range []string{"light", "minimum", "maximum", "maximum", "heavy", "heavy", "heavy", "heavy", "heavy", "heavy"} {
		l.Allow(keyfuncs.Values{"X-Client": client})
	}
	got := values(t, registry, "weblimit_share_results_total")
	for _, want := range []string{
		`share_results_total{limit="api",result="allowed",standing="of_minimum"} 1`,
		`share_results_total{limit="api",result="denied",standing="over_maximum"} 1`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no %s in %q", want, got)
		}
	}
	if !slices.ContainsFunc(got, func(line string) bool {
		return strings.HasPrefix(line, `share_results_total{limit="api",result="denied",standing="over_share"}`) && !strings.HasSuffix(line, " 0")
	}) {
		t.Errorf("nobody was denied who was over a share: %q", got)
	}
}
