package prometheus_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// Clients that reach a router which makes a route of anything can't fill the memory of the process
// or of Prometheus: further routes are "other", and a counter says so.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	l, registry := observed(t, weblimitprom.Config{MaxSeries: 10},
		perUser(core.PerHour(90)).Named("user"), perUser(core.PerHour(90)).Named("second"))
	for i := range 100 {
		l.Allow(on(fmt.Sprint("/made/up/", i)))
	}
	l.Allow(on("/made/up/1")) // this route has its series
	decisions, results := values(t, registry, "weblimit_decisions_total"), values(t, registry, "weblimit_limit_results_total")
	// Ten, and those of the route "other".
	if len(decisions) > 10+2 || len(results) > 2*2*(10+1) {
		t.Errorf("%d series of decisions and %d of results:\n%s", len(decisions), len(results), strings.Join(decisions, "\n"))
	}
	var counted float64
	for _, m := range gather(t, registry)["weblimit_decisions_total"].Metric {
		counted += m.GetCounter().GetValue()
	}
	check.Equal(t, "decisions counted", counted, 101)
	wantValues(t, registry, []string{"weblimit_series_capped_total"}, `series_capped_total{limit="user"} 95`, `series_capped_total{limit="second"} 0`)
}

func TestLimitsNodesAndClassesAreBounded(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	for i := range 3000 {
		d := &core.Decision{Err: &store.Error{Class: store.Class(fmt.Sprint("class ", i)), Node: fmt.Sprint("node", i)}}
		observer.Decided(t.Context(), &core.Observation{Decision: d})
		observer.Settled(core.Settlement{Rule: &core.Rule{Name: fmt.Sprint("limit", i)}, Units: 1})
		observer.StoreEvent(core.Event{Kind: store.EventBreakerOpened, Node: fmt.Sprint("node", i)})
	}
	for name, most := range map[string]int{
		"weblimit_settlements_total": 4 * 1001, "weblimit_store_errors_total": 64 + 257, "weblimit_breaker_open": 257, "weblimit_breaker_opened_total": 257,
	} {
		if n := len(gather(t, registry)[name].Metric); n > most {
			t.Errorf("%s has %d series, want at most %d", name, n, most)
		}
	}
}

// A route that is no text can't make the scrape fail.
func TestLabelsAreText(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	l := limiter(t, core.Config{Store: core.NewMemory(), Observe: observer, Limits: []core.Limit{perUser(core.PerHour(9)).Named("user")}})
	for _, route := range []string{"/\xff", "/\xfe", "/?"} {
		l.Allow(on(route))
	}
	observer.Decided(t.Context(), &core.Observation{Decision: &core.Decision{Err: &store.Error{Class: "\xff", Node: "\xff"}}})
	wantValues(t, registry, []string{"weblimit_limit_results_total", "weblimit_store_errors_total"},
		`limit_results_total{limit="user",result="allowed",route="/?"} 3`,
		`limit_results_total{limit="user",result="denied",route="/?"} 0`,
		`store_errors_total{class="?",node="?"} 1`)
}

// Fiber reuses the memory of strings after the request.
func TestRoutesAreCopied(t *testing.T) {
	t.Parallel()
	l, registry := observed(t, weblimitprom.Config{}, perUser(core.PerHour(9)).Named("user"))
	buffer := []byte("/one")
	route := unsafe.String(&buffer[0], len(buffer))
	l.Allow(on(route))
	copy(buffer, "/two")
	l.Allow(on("/one"))
	l.Allow(on(route))
	wantValues(t, registry, []string{"weblimit_limit_results_total"},
		`limit_results_total{limit="user",result="allowed",route="/one"} 2`, `limit_results_total{limit="user",result="denied",route="/one"} 0`,
		`limit_results_total{limit="user",result="allowed",route="/two"} 1`, `limit_results_total{limit="user",result="denied",route="/two"} 0`)
}

func TestWithoutRoutes(t *testing.T) {
	t.Parallel()
	l, registry := observed(t, weblimitprom.Config{WithoutRoutes: true}, perUser(core.PerHour(9)).Named("user"))
	l.Allow(on("/orders"))
	wantValues(t, registry, []string{"weblimit_limit_results_total"},
		`limit_results_total{limit="user",result="allowed",route=""} 1`, `limit_results_total{limit="user",result="denied",route=""} 0`)
}

// Requests and scrapes at the same time, while routes come: nothing is lost.
func TestConcurrentDecisions(t *testing.T) {
	t.Parallel()
	l, registry := observed(t, weblimitprom.Config{MaxSeries: 20, TraceID: func(context.Context) string { return "a1" }}, perUser(core.PerHour(1000)).Named("user"))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				l.Allow(on(fmt.Sprint("/", (g+i)%40)))
				if i%100 == 0 {
					gather(t, registry)
				}
			}
		})
	}
	wg.Wait()
	var decisions, results float64
	for _, m := range gather(t, registry)["weblimit_decisions_total"].Metric {
		decisions += m.GetCounter().GetValue()
	}
	for _, m := range gather(t, registry)["weblimit_limit_results_total"].Metric {
		results += m.GetCounter().GetValue()
	}
	if decisions != 4000 || results != 4000 {
		t.Errorf("%v decisions and %v results, want 4000 of each", decisions, results)
	}
}
