package prometheus_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

func TestConfigurationsThatCantWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		config weblimitprom.Config
		want   string
	}{
		{"a negative bound", weblimitprom.Config{MaxSeries: -1}, "MaxSeries must be at least 1"},
		{"a namespace that is no text", weblimitprom.Config{Namespace: "web\xfflimit"}, "Namespace must be letters, digits, _ and :"},
		{"a namespace that only newer releases take", weblimitprom.Config{Namespace: "my-shop"}, `such as my_shop, got "my-shop"`},
		{"a namespace that begins with a digit", weblimitprom.Config{Namespace: "1shop"}, "no digit first"},
		{"a label that is no text", weblimitprom.Config{ConstLabels: prometheus.Labels{"my\xffzone": "a"}}, "a label's name must be letters, digits and _"},
		{"a label that only newer releases take", weblimitprom.Config{ConstLabels: prometheus.Labels{"my.zone": "a"}}, `such as my_zone, got "my.zone"`},
		{"a label of ours", weblimitprom.Config{ConstLabels: prometheus.Labels{"limit": "a"}}, "duplicate label names"},
	} {
		tt.config.Registerer = prometheus.NewRegistry()
		if _, err := weblimitprom.New(tt.config); err == nil || !strings.HasPrefix(err.Error(), "weblimit: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

func TestRegisteringTwiceFails(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	must.Do(weblimitprom.New(weblimitprom.Config{Registerer: registry}))(t)
	if _, err := weblimitprom.New(weblimitprom.Config{Registerer: registry}); err == nil || !strings.Contains(err.Error(), "share one observer") {
		t.Errorf("error %v, want one that says to share the observer", err)
	}
	must.Do(weblimitprom.New(weblimitprom.Config{Registerer: registry, Namespace: "other"}))(t)
	check.Fails(t, "labels that only some of a name's metrics have were registered", check.ErrorOf(weblimitprom.New(weblimitprom.Config{Registerer: registry, ConstLabels: prometheus.Labels{"shard": "b"}})), "")
}

// used returns a registry with a value in every metric.
func used(t *testing.T, config weblimitprom.Config) *prometheus.Registry {
	t.Helper()
	config.TopDenied = func() float64 { return 120 }
	observer, registry := observe(t, config)
	down := newFlaky()
	l := limiter(t, core.Config{Store: down, Observe: observer, Version: "v1", Limits: []core.Limit{perUser(core.PerHour(2)).Named("user")}})
	for range 3 {
		l.Allow(on("/orders/{id}"))
	}
	limiter(t, core.Config{Store: core.NewMemory(), Observe: observer, Limits: []core.Limit{perUser(core.PerHour(4)).Named("classes").
		Classes(core.Class{Name: "high", When: keyfuncs.Methods("POST"), Keep: 0.5}, core.Class{Name: "low"})}}).Allow(on("/orders/{id}"))
	limiter(t, core.Config{Store: core.NewMemory(), Observe: observer, Limits: []core.Limit{core.PerHour(4).By(keyfuncs.Everyone()).Named("capacity").
		Fair(core.Shares{By: keyfuncs.User("user")})}}).Allow(on("/orders/{id}"))
	down.Registry().Report(core.Event{Kind: store.EventBreakerOpened, Node: "a:6379"})
	down.Registry().Report(core.Event{Kind: "notices failing", Node: "billing", Count: 1})
	down.Registry().Report(core.Event{Kind: "export failing", Node: "openmeter", Count: 1})
	receivers := map[string]books.Deliveries{"receiver": {Done: 1}}
	books.Add(down.Registry(), func() books.Stats {
		return books.Stats{Accounts: 1, Units: map[string]books.Units{"user": {Granted: 2}}, Notices: receivers, Exports: receivers}
	})
	regional.Add(down.Registry(), func() regional.Stats {
		return regional.Stats{Region: "eu", Limits: map[string]regional.Counts{"user": {Leased: 1}}}
	})
	down.fail(errRefused)
	l.Allow(on("/orders/{id}"))
	observer.Settled(core.Settlement{Rule: &core.Rule{Name: "user"}, Units: 3})
	observer.Decided(t.Context(), &core.Observation{Decision: &core.Decision{Allowed: true, Reason: core.ReasonDelayed}, WaitTime: 1e9})
	return registry
}

// The linter is that of promtool check metrics.
func TestMetricsKeepToTheConventions(t *testing.T) {
	t.Parallel()
	families := must.Get(used(t, weblimitprom.Config{}).Gather())(t)
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	check.Equal(t, "metrics, all of which this test uses", strings.Join(names, "\n"), strings.Join(described(t), "\n"))
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestNamespaceAndLabels(t *testing.T) {
	t.Parallel()
	registry := used(t, weblimitprom.Config{Namespace: "shop_limits", ConstLabels: prometheus.Labels{"zone": "b"}})
	families := must.Get(registry.Gather())(t)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "shop_limits_") {
			t.Errorf("%s has another namespace", f.GetName())
		}
		for _, m := range f.Metric {
			if !strings.Contains(fmt.Sprint(m.Label), `name:"zone"`) && !strings.Contains(fmt.Sprint(m.Label), `name: "zone"`) {
				t.Errorf("%s{%v} has no zone", f.GetName(), m.Label)
			}
		}
	}
}

// What is written can be read again, in the text format and in that with exemplars.
func TestTheTextFormat(t *testing.T) {
	t.Parallel()
	families := must.Get(used(t, weblimitprom.Config{}).Gather())(t)
	var text strings.Builder
	for _, f := range families {
		must.Do(expfmt.MetricFamilyToText(&text, f))(t)
	}
	decoder := expfmt.NewDecoder(strings.NewReader(text.String()), expfmt.NewFormat(expfmt.TypeTextPlain))
	read, err := 0, error(nil)
	for ; err == nil; read++ {
		err = decoder.Decode(new(dto.MetricFamily))
	}
	if read--; !errors.Is(err, io.EOF) || read != len(families) {
		t.Errorf("%d of %d metrics were read: %v\n%s", read, len(families), err, text.String())
	}
}

func TestTheMostDeniedClient(t *testing.T) {
	t.Parallel()
	_, registry := observe(t, weblimitprom.Config{TopDenied: func() float64 { return 120 }})
	wantValues(t, registry, []string{"weblimit_top_denied_per_minute"}, `top_denied_per_minute{} 120`)
}

// The other metrics are still there.
func TestTopDeniedThatPanicsBreaksNothing(t *testing.T) {
	t.Parallel()
	_, registry := observe(t, weblimitprom.Config{TopDenied: func() float64 { panic("no clients") }})
	wantValues(t, registry, []string{"weblimit_top_denied_per_minute", "weblimit_buckets"}, `buckets{} 0`)
}
