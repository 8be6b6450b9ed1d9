package otel_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

func TestDecisionsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newSDK(t, weblimitotel.Config{})
		l := newLimiter(t, core.Config{
			Store: newSlow(2*time.Millisecond, nil), Observe: seen,
			Limits: []core.Limit{
				core.PerHour(2).By(everyone).Named("user"),
				core.PerHour(1).By(everyone).Named("trial").Shadow(),
			},
			Bypass: []keyfuncs.Condition{keyfuncs.Routes("/healthz")},
		})
		for range 3 {
			ask(t.Context(), l, "/items/:id")
		}
		ask(t.Context(), l, "/healthz")
		l.AllowKey(t.Context(), "user:42", 1)
		wantMetrics(t, seen.metrics(t),
			"weblimit.decisions{adapter=gin decision=allowed http.route=/items/:id limit=user reason=within_limit} 1",
			"weblimit.decisions{adapter=gin decision=allowed http.route=/items/:id limit=user reason=shadowed} 1",
			"weblimit.decisions{adapter=gin decision=denied http.route=/items/:id limit=user reason=limit_exceeded} 1",
			"weblimit.decisions{adapter=gin decision=allowed http.route=/healthz reason=bypassed} 1",
			"weblimit.decisions{decision=allowed limit=user reason=within_limit} 1",
			"weblimit.would_be_denied{http.route=/items/:id limit=trial} 2",
			"weblimit.check.duration{limit=user} 4 in 0.008s",
			"weblimit.retry_after{limit=user} 1 in 1799.996s",
		)
	})
}

func TestWaitsAreMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newSDK(t, weblimitotel.Config{WithoutRoutes: true})
		l := newLimiter(t, core.Config{
			Store: core.NewMemory(), Observe: seen,
			Limits: []core.Limit{core.PerSecond(1).LeakyBucket(time.Minute).By(everyone).Named("queue")},
		})
		ask(t.Context(), l, "/a")
		ask(t.Context(), l, "/a")
		got := seen.metrics(t)
		if got["weblimit.wait.duration{limit=queue}"] != "1 in 1s" || got["weblimit.decisions{adapter=gin decision=allowed limit=queue reason=delayed}"] != "1" {
			t.Errorf("measured %v", got)
		}
	})
}

func TestStoresAreMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen, tested := newSDK(t, weblimitotel.Config{}), newSlow(2*time.Millisecond, errDown)
		l := newLimiter(t, core.Config{
			Store: tested, Observe: seen, Limits: []core.Limit{core.PerHour(5).By(everyone).Named("user").OnOutage(core.Deny)},
		})
		ask(t.Context(), l, "")
		tested.Registry().Report(core.Event{Kind: store.EventBreakerOpened, Node: errDown.Node})
		wantMetrics(t, seen.metrics(t),
			"weblimit.decisions{adapter=gin decision=denied limit=user reason=outage_denied} 1",
			"weblimit.check.duration{error.type=READONLY limit=user} 1 in 0.002s",
			"weblimit.retry_after{limit=user} 1 in 1s",
			"weblimit.store.breakers.open{store.node=10.0.0.7:6379} 1",
			"weblimit.store.errors{error.type=READONLY store.node=10.0.0.7:6379} 1",
			"weblimit.store.outages{} 1",
		)
		tested.err = nil
		tested.Registry().Report(core.Event{Kind: store.EventBreakerClosed, Node: errDown.Node})
		ask(t.Context(), l, "")
		time.Sleep(2 * time.Second)
		ask(t.Context(), l, "")
		got := seen.metrics(t)
		if got["weblimit.store.outages{}"] != "0" || got["weblimit.store.breakers.open{store.node=10.0.0.7:6379}"] != "0" {
			t.Errorf("after the outage: %v", got)
		}
	})
}

func TestErrorsOfStoresAreCounted(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	l := newLimiter(t, core.Config{Store: newSlow(0, errDown), Observe: seen, Limits: []core.Limit{core.PerHour(5).By(everyone)}})
	l.AllowKey(t.Context(), "k", 1)
	seen.StoreEvent(core.Event{Kind: store.EventStoreError, Class: "breaker open", Count: 5})
	seen.StoreEvent(core.Event{Kind: store.EventSettlementsLost, Class: "timeout", Count: 3})
	got := seen.metrics(t)
	check.Equal(t, "lost settlements", got["weblimit.store.settlements.lost{error.type=timeout}"], "3")
	if got["weblimit.store.errors{error.type=READONLY store.node=10.0.0.7:6379}"] != "1" || got["weblimit.store.errors{error.type=breaker_open}"] != "5" {
		t.Errorf("measured %v", got)
	}
}

// What a quota.Book reports is measured.
func TestBooksAreMeasured(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	for _, e := range []core.Event{
		{Kind: "ledger back"},
		{Kind: "ledger out"},
		{Kind: "ledger out"},
		{Kind: "ledger back"},
		{Kind: "accounts waiting", Count: 70},
		{Kind: "accounts forked", Count: 3},
		{Kind: "notices failing", Node: "billing", Count: 2},
		{Kind: "notices dead", Node: "billing", Count: 1},
		{Kind: "export failing", Node: "openmeter", Count: 500},
	} {
		seen.StoreEvent(e)
	}
	wantMetrics(t, seen.metrics(t), "weblimit.ledger.out{} 1", "weblimit.ledger.accounts.waiting{} 70", "weblimit.ledger.accounts.forked{} 3",
		"weblimit.notices.failed{channel=billing} 2", "weblimit.notices.dead{channel=billing} 1", "weblimit.exports.failed{export=openmeter} 500")
}

// An observer may come in the middle of an outage.
func TestTheEndOfWhatWasNotSeenToBeginCountsNothing(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	for _, kind := range []store.EventKind{store.EventOutageEnded, store.EventBreakerClosed, store.EventOutageBegan, store.EventBreakerOpened} {
		seen.StoreEvent(core.Event{Kind: kind, Node: "a"})
	}
	wantMetrics(t, seen.metrics(t), "weblimit.store.outages{} 1", "weblimit.store.breakers.open{store.node=a} 1")
}

// From a histogram of denials one gets to the trace of one of them.
func TestExemplars(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{core.PerHour(1).By(everyone)}})
	var traces []string
	for range 2 {
		seen.in(func(ctx context.Context) {
			ask(ctx, l, "/")
			traces = append(traces, trace.SpanContextFromContext(ctx).TraceID().String())
		})
	}
	var data metricdata.ResourceMetrics
	must.OK(t, seen.reader.Collect(t.Context(), &data))
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name != "weblimit.retry_after" {
			continue
		}
		found := m.Data.(metricdata.Histogram[float64]).DataPoints[0].Exemplars
		if len(found) != 1 || hex.EncodeToString(found[0].TraceID) != traces[1] {
			t.Errorf("exemplars %v, want one of trace %s", found, traces[1])
		}
		return
	}
	t.Error("retry_after was not measured")
}

// The order of doc.go: after Drain and Shutdown, nothing is missing from what was exported.
func TestShutdownLosesNoSettlement(t *testing.T) {
	t.Parallel()
	exported := new(lastExport)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exported, sdkmetric.WithInterval(time.Hour))))
	store := newSlow(0, nil)
	l := newLimiter(t, core.Config{
		Store: store, Observe: weblimitotel.Must(weblimitotel.New(weblimitotel.Config{MeterProvider: meters})),
		Limits: []core.Limit{core.PerHour(100).By(everyone).Named("tokens").Estimate(10)},
	})
	for _, cost := range []int64{4, 13} {
		d := l.AllowKey(t.Context(), "k", 10)
		must.OK(t, core.Spend(core.NewContext(t.Context(), d), cost))
		d.Settle(core.Outcome{})
	}
	must.OK(t, l.Drain(t.Context()))
	store.err = errDown
	d := l.AllowKey(t.Context(), "k", 10)
	d.Settle(core.Outcome{})
	must.OK(t, l.Drain(t.Context()))
	must.OK(t, meters.Shutdown(t.Context()))
	for name, want := range map[string]string{
		"weblimit.settled.units{limit=tokens settlement.kind=refunded}": "6", "weblimit.settlements{limit=tokens settlement.kind=refunded}": "1",
		"weblimit.settled.units{limit=tokens settlement.kind=charged}": "3", "weblimit.settlements{limit=tokens settlement.kind=charged}": "1",
	} {
		check.Equal(t, name, numbers(exported.data)[name], want)
	}
}

func TestASettlementThatTheStoreMayNotKnow(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(1).By(everyone).Named("user")}})
	d := l.AllowKey(t.Context(), "k", 1)
	seen.Settled(core.Settlement{Rule: d.Results()[0].Rule, Units: -3, Err: errDown})
	wantMetrics(t, seen.metrics(t),
		"weblimit.settled.units{limit=user settlement.kind=unknown} 3", "weblimit.settlements{limit=user settlement.kind=unknown} 1")
	seen.Settled(core.Settlement{Rule: d.Results()[0].Rule, Units: 5, Forgiven: 3})
	seen.Settled(core.Settlement{Rule: d.Results()[0].Rule, Forgiven: 4}) // of what was granted in an outage
	wantMetrics(t, seen.metrics(t),
		"weblimit.settled.units{limit=user settlement.kind=unknown} 3", "weblimit.settlements{limit=user settlement.kind=unknown} 1",
		"weblimit.settled.units{limit=user settlement.kind=charged} 2", "weblimit.settlements{limit=user settlement.kind=charged} 1",
		"weblimit.settled.units{limit=user settlement.kind=forgiven} 7", "weblimit.settlements{limit=user settlement.kind=forgiven} 2")
}

// lastExport is an exporter that keeps what it was given last.
type lastExport struct{ data metricdata.ResourceMetrics }

func (e *lastExport) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

func (e *lastExport) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

func (e *lastExport) Export(_ context.Context, data *metricdata.ResourceMetrics) error {
	e.data = *data
	return nil
}
func (e *lastExport) ForceFlush(context.Context) error { return nil }
func (e *lastExport) Shutdown(context.Context) error   { return nil }

// Names that an application makes of what clients send do not grow memory or series without bound.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{MaxSeries: 20})
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{
		core.PerHour(10).By(everyone).Named("user"), core.PerHour(10).By(everyone).Named("trial").Shadow(),
	}})
	for i := range 1000 {
		ask(t.Context(), l, fmt.Sprintf("/made-up/%d", i))
	}
	for i := range 5000 {
		seen.StoreEvent(core.Event{Kind: store.EventStoreError, Class: "timeout", Node: fmt.Sprintf("10.0.0.%d:6379", i), Count: 1})
		seen.StoreEvent(core.Event{Kind: store.EventBreakerOpened, Node: fmt.Sprintf("10.0.0.%d:6379", i)})
	}
	counts, total := map[string]int{}, 0
	for name, value := range seen.metrics(t) {
		metric, _, _ := strings.Cut(name, "{")
		counts[metric]++
		if metric == "weblimit.decisions" {
			total += must.Get(strconv.Atoi(value))(t)
		}
	}
	if counts["weblimit.decisions"] > 25 || counts["weblimit.would_be_denied"] > 21 || total != 1000 {
		t.Errorf("%d decisions in %v series", total, counts)
	}
	if counts["weblimit.store.errors"] > 1001 || counts["weblimit.store.breakers.open"] > 1001 {
		t.Errorf("series of nodes: %v", counts)
	}
}

func TestLimitsAreBounded(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	for i := range 1500 {
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{core.PerHour(10).By(everyone).Named(fmt.Sprint("tenant-", i))}})
		l.AllowKey(t.Context(), "k", 1)
	}
	check.Equal(t, "decisions of limits beyond the bound", seen.metrics(t)["weblimit.decisions{decision=allowed limit=other reason=within_limit}"], "500")
}

// A string that is no UTF-8 would cost an exporter all that it sends together.
func TestAttributesAreUTF8(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{core.PerHour(10).By(everyone)}})
	ask(t.Context(), l, "/\xff\xfe")
	seen.StoreEvent(core.Event{Kind: store.EventStoreError, Class: "\xff", Node: "\xff", Count: 1})
	for name := range seen.metrics(t) {
		if !utf8.ValidString(name) {
			t.Errorf("%q", name)
		}
	}
}

func TestNoMeterMeasuresNothing(t *testing.T) {
	t.Parallel()
	o := weblimitotel.Must(weblimitotel.New(weblimitotel.Config{MeterProvider: noop.NewMeterProvider()}))
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: o, Limits: []core.Limit{core.PerHour(10).By(everyone)}})
	l.AllowKey(t.Context(), "k", 1)
	o.StoreEvent(core.Event{Kind: store.EventOutageBegan})
}

// refusing is a provider whose meter makes no counters.
type refusing struct{ noop.MeterProvider }

type refusingMeter struct{ noop.Meter }

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

func (refusingMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, fmt.Errorf("no %s", name)
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]weblimitotel.Config{
		"weblimit: otel.Config.MaxSeries must be at least 1, got -1": {MaxSeries: -1},
		"weblimit: otel: no weblimit.decisions":                      {MeterProvider: refusing{}},
	} {
		o, err := weblimitotel.New(config)
		if err == nil || o != nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New returned %v and %v, want %q", o, err, want)
		}
	}
}

// A version is measured while a limiter decides by it, and described on the request's span.
func TestPolicyVersions(t *testing.T) {
	t.Parallel()
	seen := newSDK(t, weblimitotel.Config{})
	var live compose.Live
	l := must.Get(live.Limiter(core.Config{
		Store: core.NewMemory(), Observe: seen, Version: "v1#0a", Limits: []core.Limit{core.PerMinute(1).By(keyfuncs.Everyone()).Named("user")},
	}))(t)
	live.Refuse(true)
	wantMetrics(t, seen.metrics(t), "weblimit.policy.info{policy.version=v1#0a} 1", "weblimit.policy.refused{} 1")
	runtime.KeepAlive(l)
}
