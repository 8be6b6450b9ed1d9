package prometheus_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// A limit, and another one in shadow mode, whose metrics say what it would deny.
func ExampleNew() {
	registry := prometheus.NewRegistry()
	metrics, err := weblimitprom.New(weblimitprom.Config{Registerer: registry})
	if err != nil {
		panic(err)
	}
	limiter := core.Must(core.New(core.Config{
		Store: core.NewMemory(),
		Limits: []core.Limit{
			core.PerMinute(3).By(keyfuncs.User("userID")).Named("user"),
			core.PerMinute(1).By(keyfuncs.User("userID")).Named("trial").Shadow(),
		},
		Observe: metrics,
	}))
	for range 4 {
		limiter.Allow(keyfuncs.Values{"route": "/orders/{id}", "userID": "alice"})
	}

	families, err := registry.Gather() // an application serves them with promhttp
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		if family.GetName() == "weblimit_limit_results_total" {
			if _, err := expfmt.MetricFamilyToText(os.Stdout, family); err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// # HELP weblimit_limit_results_total What each limit said to each request that it applied to. Limits in shadow mode say would_be_denied.
	// # TYPE weblimit_limit_results_total counter
	// weblimit_limit_results_total{limit="trial",result="allowed",route="/orders/{id}"} 1
	// weblimit_limit_results_total{limit="trial",result="would_be_denied",route="/orders/{id}"} 3
	// weblimit_limit_results_total{limit="user",result="allowed",route="/orders/{id}"} 3
	// weblimit_limit_results_total{limit="user",result="denied",route="/orders/{id}"} 1
}

// Exemplars lead from a slow check, or a denial, to its trace. With OpenTelemetry the function is:
//
//	func(ctx context.Context) string {
//		if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
//			return span.TraceID().String()
//		}
//		return ""
//	}
func ExampleConfig_traceID() {
	type traceKey struct{} // of the application's tracing
	metrics := weblimitprom.Must(weblimitprom.New(weblimitprom.Config{
		Registerer: prometheus.NewRegistry(),
		TraceID: func(ctx context.Context) string {
			id, _ := ctx.Value(traceKey{}).(string)
			return id
		},
	}))
	limiter := core.Must(core.New(core.Config{
		Store: core.NewMemory(), Observe: metrics, Limits: []core.Limit{core.PerMinute(1).By(keyfuncs.User("userID")).Named("user")},
	}))
	ctx := context.WithValue(context.Background(), traceKey{}, "4bf92f3577b34da6a3ce929d0e0e4736")
	limiter.AllowKey(ctx, "user:alice", 1)
	limiter.AllowKey(ctx, "user:alice", 1)

	written := make(chan prometheus.Metric, 1000)
	metrics.Collect(written)
	close(written)
	for m := range written {
		if strings.Contains(m.Desc().String(), "decisions_total") {
			fmt.Println(traceOf(m))
		}
	}
	// Unordered output:
	// allowed
	// denied by 4bf92f3577b34da6a3ce929d0e0e4736
}
