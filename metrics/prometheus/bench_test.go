package prometheus_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// BenchmarkObserver decides in memory: without an observer, with one that does nothing, and with
// that of this package. The difference between the first and the last is what metrics cost.
func BenchmarkObserver(b *testing.B) {
	traced := func(context.Context) string { return "4bf92f3577b34da6a3ce929d0e0e4736" }
	with := func(config weblimitprom.Config) core.Observer {
		config.Registerer = prometheus.NewRegistry()
		return weblimitprom.Must(weblimitprom.New(config))
	}
	for _, observer := range []struct {
		name string
		is   core.Observer
	}{
		{"none", nil},
		{"nop", core.NopObserver{}},
		{"prometheus", with(weblimitprom.Config{})},
		{"with exemplars", with(weblimitprom.Config{TraceID: traced})},
	} {
		for _, limit := range []struct {
			name string
			is   core.Limit
		}{{"allowed", core.PerSecond(1_000_000_000)}, {"denied", core.PerDay(1)}} {
			l := core.Must(core.New(core.Config{Store: core.NewMemory(), Observe: observer.is, Limits: []core.Limit{limit.is.By(keyfuncs.User("userID"))}}))
			b.Run(limit.name+"/"+observer.name, func(b *testing.B) {
				ctx := context.Background()
				b.ReportAllocs()
				for b.Loop() {
					l.AllowKey(ctx, "user:alice", 1)
				}
			})
		}
	}
}
