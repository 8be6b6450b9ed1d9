package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// observe returns an observer with a registry of its own.
func observe(t testing.TB, config weblimitprom.Config) (*weblimitprom.Observer, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	config.Registerer = registry
	return must.Get(weblimitprom.New(config))(t), registry
}

// observed returns a limiter in memory that an observer of its own sees, and the observer's registry.
func observed(t testing.TB, config weblimitprom.Config, limits ...core.Limit) (*core.Limiter, *prometheus.Registry) {
	t.Helper()
	observer, registry := observe(t, config)
	return limiter(t, core.Config{Store: core.NewMemory(), Observe: observer, Limits: limits}), registry
}

// limiter returns a limiter that exists until the test ends: the observer does not keep it.
func limiter(t testing.TB, config core.Config) *core.Limiter {
	t.Helper()
	l := must.Get(core.New(config))(t)
	t.Cleanup(func() { runtime.KeepAlive(l) })
	return l
}

func perUser(l core.Limit) core.Limit { return l.By(keyfuncs.User("userID")) }

// on returns a request of a user on a route.
func on(route string) keyfuncs.Values {
	return keyfuncs.Values{"method": "GET", "route": route, "userID": "alice"}
}

func gather(t testing.TB, registry prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	all := map[string]*dto.MetricFamily{}
	for _, f := range must.Get(registry.Gather())(t) {
		all[f.GetName()] = f
	}
	return all
}

// values returns the series of some metrics as lines, sorted: those of histograms with their count.
func values(t testing.TB, registry prometheus.Gatherer, names ...string) (lines []string) {
	t.Helper()
	for name, family := range gather(t, registry) {
		if !slices.Contains(names, name) {
			continue
		}
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			lines = append(lines, fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(name, "weblimit_"), strings.Join(labels, ","), value))
		}
	}
	slices.Sort(lines)
	return lines
}

// wantValues fails the test unless the metrics have exactly these series.
func wantValues(t testing.TB, registry prometheus.Gatherer, names []string, want ...string) {
	t.Helper()
	got := values(t, registry, names...)
	slices.Sort(want)
	check.Equal(t, "series", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// flaky is a store that can be down.
type flaky struct {
	core.Store
	err   atomic.Pointer[error] // nil while it answers
	takes time.Duration         // to give back, in a bubble
}

func newFlaky() *flaky { return &flaky{Store: core.NewMemory()} }

func (f *flaky) fail(err error) { f.err.Store(&err) }

func (f *flaky) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return f.Store.Take(ctx, checks, results)
}

func (f *flaky) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	time.Sleep(f.takes)
	if err := f.err.Load(); err != nil {
		return *err
	}
	return f.Store.Refund(ctx, checks, results)
}

var errRefused error = &store.Error{Class: store.ClassConnection, Node: "10.0.0.7:6379", Err: errors.New("connection refused")}

// traceOf returns the decision of a counter, and the trace of its exemplar.
func traceOf(m prometheus.Metric) string {
	var written dto.Metric
	if err := m.Write(&written); err != nil {
		return err.Error()
	}
	decision := written.Label[0].GetValue()
	for _, l := range written.Counter.GetExemplar().GetLabel() {
		decision += " by " + l.GetValue()
	}
	return decision
}
