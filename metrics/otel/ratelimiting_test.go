package otel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

// rateLimiting returns what was measured under the names that the conventions have the shape of.
func rateLimiting(measured map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range measured {
		if name, is := strings.CutPrefix(name, "weblimit.rate_limiting."); is {
			all[name] = value
		}
	}
	return all
}

// Requests are counted by limit and result, and those that no limit was asked about are not.
func TestRateLimitingCountsRequests(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{RateLimiting: true})
	l := newLimiter(t, core.Config{
		Store: core.NewMemory(), Observe: seen,
		Limits: []core.Limit{core.PerHour(2).By(everyone).Named("user")},
		Bypass: []keyfuncs.Condition{keyfuncs.Routes("/healthz")},
	})
	for _, route := range []string{"/a", "/b", "/a", "/healthz"} {
		ask(t.Context(), l, route)
	}
	got := rateLimiting(seen.metrics(t))
	wantMetrics(t, got,
		"requests{rate_limiting.policy=user rate_limiting.result=acquired} 2",
		"requests{rate_limiting.policy=user rate_limiting.result=endpoint_limiter} 1",
		"queued_requests{} 0",
	)
	if seen.metrics(t)["weblimit.decisions{adapter=gin decision=denied http.route=/a limit=user reason=limit_exceeded}"] != "1" {
		t.Error("the metrics of the package are missing beside these")
	}
}

// What waits is counted while it waits, and measured afterwards, also if its client leaves.
func TestRateLimitingMeasuresQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newSDK(t, weblimitotel.Config{RateLimiting: true})
		l := newLimiter(t, core.Config{
			Store: core.NewMemory(), Observe: seen,
			Limits: []core.Limit{core.PerSecond(1).LeakyBucket(time.Minute).By(everyone).Named("queue")},
		})
		ask(t.Context(), l, "/")
		ctx, leave := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer leave()
		go ask(t.Context(), l, "/")
		synctest.Wait()
		go ask(ctx, l, "/")
		synctest.Wait()
		check.Equal(t, "those that wait", rateLimiting(seen.metrics(t))["queued_requests{}"], "2")
		time.Sleep(2 * time.Second) // in a bubble
		wantMetrics(t, rateLimiting(seen.metrics(t)),
			"requests{rate_limiting.policy=queue rate_limiting.result=acquired} 2",
			"requests{rate_limiting.policy=queue rate_limiting.result=request_canceled} 1",
			"request.time_in_queue{rate_limiting.policy=queue rate_limiting.result=acquired} 1 in 1s",
			"request.time_in_queue{rate_limiting.policy=queue rate_limiting.result=request_canceled} 1 in 0.25s",
			"queued_requests{} 0",
		)
	})
}

func TestRateLimitingIsOffByDefault(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{core.PerHour(2).By(everyone)}})
	ask(t.Context(), l, "/")
	if got := rateLimiting(seen.metrics(t)); len(got) > 0 {
		t.Errorf("measured %v", got)
	}
}

// Kinds, units and buckets are those of the semantic conventions for aspnetcore.rate_limiting.*.
func TestRateLimitingHasTheShapeOfTheConventions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newSDK(t, weblimitotel.Config{RateLimiting: true})
		l := newLimiter(t, core.Config{
			Store: core.NewMemory(), Observe: seen,
			Limits: []core.Limit{core.PerSecond(1).LeakyBucket(time.Minute).By(everyone)},
		})
		ask(t.Context(), l, "/")
		ask(t.Context(), l, "/")
		var data metricdata.ResourceMetrics
		must.OK(t, seen.reader.Collect(t.Context(), &data))
		units := map[string]string{}
		for _, m := range data.ScopeMetrics[0].Metrics {
			units[m.Name] = m.Unit
			switch points := m.Data.(type) {
			case metricdata.Sum[int64]:
				if m.Name == "weblimit.rate_limiting.queued_requests" && points.IsMonotonic {
					t.Errorf("%s only grows", m.Name)
				}
			case metricdata.Histogram[float64]:
				if m.Name == "weblimit.rate_limiting.request.time_in_queue" {
					check.Slices(t, "buckets", points.DataPoints[0].Bounds, []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10})
				}
			}
		}
		check.Equal(t, "unit of requests", units["weblimit.rate_limiting.requests"], "{request}")
		check.Equal(t, "unit of queued_requests", units["weblimit.rate_limiting.queued_requests"], "{request}")
		check.Equal(t, "unit of request.time_in_queue", units["weblimit.rate_limiting.request.time_in_queue"], "s")
	})
}
