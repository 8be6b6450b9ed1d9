package prometheus_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// A node that has left its Cluster is not asked any more, so its breaker never closes.
func TestNodesThatNobodyAsksAreNotListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		observer, registry := observe(t, weblimitprom.Config{})
		for _, node := range []string{"gone:6379", "asked:6379", "closed:6379"} {
			observer.StoreEvent(core.Event{Kind: store.EventBreakerOpened, Node: node})
		}
		observer.StoreEvent(core.Event{Kind: store.EventBreakerClosed, Node: "closed:6379"})
		for range 11 {
			observer.Decided(t.Context(), &core.Observation{Decision: &core.Decision{Err: &store.Error{Class: store.ClassOpen, Node: "asked:6379"}}})
			time.Sleep(time.Minute)
		}
		wantValues(t, registry, []string{"weblimit_breaker_open"}, `breaker_open{node="asked:6379"} 1`, `breaker_open{node="closed:6379"} 0`)
	})
}

// An instance that gets no requests any more does not report a fallback for ever.
func TestTheFallbackEndsWithItsDecisions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		observer, registry := observe(t, weblimitprom.Config{})
		down := newFlaky()
		down.fail(errRefused)
		l := limiter(t, core.Config{Store: down, Observe: observer, Limits: []core.Limit{perUser(core.PerHour(3))}})
		l.AllowKey(t.Context(), "k", 1)
		wantValues(t, registry, []string{"weblimit_outage_active", "weblimit_fallback_active"}, `outage_active{} 1`, `fallback_active{} 1`)
		time.Sleep(11 * time.Second)
		wantValues(t, registry, []string{"weblimit_outage_active", "weblimit_fallback_active"}, `outage_active{} 1`, `fallback_active{} 0`)
	})
}

// The observer keeps no limiter alive, nor its store.
func TestLimitersThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	kept := core.NewMemory()
	l := limiter(t, core.Config{Store: kept, Observe: observer, Limits: []core.Limit{perUser(core.PerHour(3))}})
	l.AllowKey(t.Context(), "k", 1)
	for range 100 {
		short := core.Must(core.New(core.Config{Store: core.NewMemory(), Observe: observer, Limits: []core.Limit{perUser(core.PerHour(3))}}))
		short.AllowKey(t.Context(), "k", 1)
	}
	var left []string
	for range 20 { // the garbage collector promises nothing
		runtime.GC()
		if left = values(t, registry, "weblimit_buckets"); left[0] == "buckets{} 1" {
			return
		}
	}
	t.Errorf("%s of 101 limiters, of which one is left", left)
}
