package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// A decision is counted once, for the limit that it is due to, and what each limit said once for each
// limit, those in shadow mode included.
func TestDecisionsAndResults(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	l := limiter(t, core.Config{
		Store: core.NewMemory(), Observe: observer, Bypass: []keyfuncs.Condition{keyfuncs.Routes("/healthz")},
		Limits: []core.Limit{
			perUser(core.PerHour(3)).Named("user"),
			perUser(core.PerHour(2)).Named("trial").Shadow(),
			perUser(core.PerHour(100)).Named("all"),
		},
	})
	for range 4 {
		l.Allow(on("/orders/{id}"))
	}
	l.Allow(on("/healthz"))
	wantValues(t, registry, []string{"weblimit_decisions_total"},
		`decisions_total{decision="allowed",limit="user",reason="within_limit",route="/orders/{id}"} 2`,
		`decisions_total{decision="allowed",limit="user",reason="shadowed",route="/orders/{id}"} 1`,
		`decisions_total{decision="denied",limit="user",reason="limit_exceeded",route="/orders/{id}"} 1`,
		`decisions_total{decision="allowed",limit="",reason="bypassed",route="/healthz"} 1`,
	)
	wantValues(t, registry, []string{"weblimit_limit_results_total", "weblimit_near_limit_total"},
		`limit_results_total{limit="user",result="allowed",route="/orders/{id}"} 3`,
		`limit_results_total{limit="user",result="denied",route="/orders/{id}"} 1`,
		`limit_results_total{limit="trial",result="allowed",route="/orders/{id}"} 2`,
		`limit_results_total{limit="trial",result="would_be_denied",route="/orders/{id}"} 2`,
		`limit_results_total{limit="all",result="allowed",route="/orders/{id}"} 4`,
		`limit_results_total{limit="all",result="denied",route="/orders/{id}"} 0`,
		`near_limit_total{limit=""} 0`,
		`near_limit_total{limit="user"} 1`,
		`near_limit_total{limit="trial"} 1`,
		`near_limit_total{limit="all"} 0`,
	)
	wantValues(t, registry, []string{"weblimit_check_duration_seconds", "weblimit_retry_after_seconds", "weblimit_buckets"},
		`check_duration_seconds{limit="user"} 4`,
		`retry_after_seconds{limit="user"} 1`,
		`buckets{} 3`,
	)
}

// Series that may be denied later start at 0, so that Prometheus sees the first denial as an increase.
func TestTheFirstDenialIsAnIncrease(t *testing.T) {
	t.Parallel()
	l, registry := observed(t, weblimitprom.Config{}, perUser(core.PerHour(3)).Named("user"))
	l.Allow(on("/"))
	wantValues(t, registry, []string{"weblimit_decisions_total", "weblimit_limit_results_total"},
		`decisions_total{decision="allowed",limit="user",reason="within_limit",route="/"} 1`,
		`decisions_total{decision="denied",limit="user",reason="limit_exceeded",route="/"} 0`,
		`limit_results_total{limit="user",result="allowed",route="/"} 1`,
		`limit_results_total{limit="user",result="denied",route="/"} 0`,
	)
}

// Every reason is a label as PromQL users expect it.
func TestRefusalsAreCountedForTheirLimit(t *testing.T) {
	t.Parallel()
	l, registry := observed(t, weblimitprom.Config{},
		core.PerHour(9).By(keyfuncs.Tenant("tenantID")).Named("tenant").OnMissingKey(core.DenyRequest))
	l.Allow(on("/"))
	l.AllowKey(t.Context(), "k", 10)
	wantValues(t, registry, []string{"weblimit_decisions_total", "weblimit_limit_results_total"},
		`decisions_total{decision="denied",limit="tenant",reason="missing_key",route="/"} 1`,
		`decisions_total{decision="denied",limit="tenant",reason="never_fits",route=""} 1`,
		`limit_results_total{limit="tenant",result="allowed",route="/"} 0`,
		`limit_results_total{limit="tenant",result="denied",route="/"} 1`,
		`limit_results_total{limit="tenant",result="allowed",route=""} 0`,
		`limit_results_total{limit="tenant",result="denied",route=""} 1`,
	)
}

// Errors are counted by class and node, each once, and the gauges of an outage follow.
func TestStoreErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		observer, registry := observe(t, weblimitprom.Config{})
		down := newFlaky()
		down.takes = time.Millisecond // to give back, so that Drain waits for it
		l := limiter(t, core.Config{Store: down, Observe: observer, Limits: []core.Limit{
			perUser(core.PerHour(3)).Named("local"), perUser(core.PerHour(9)).Named("refunded").RefundOn(core.Canceled),
		}})
		d := l.AllowKey(t.Context(), "k", 1)
		down.fail(errRefused)
		l.AllowKey(t.Context(), "k", 1)
		l.AllowKey(t.Context(), "k", 1)
		down.fail(context.DeadlineExceeded)
		l.AllowKey(t.Context(), "k", 1)
		down.fail(errors.New("no idea"))
		d.Settle(core.Outcome{Canceled: true})
		check.Fails(t, "a settlement that failed is not lost", l.Drain(t.Context()), "")
		wantValues(t, registry, []string{"weblimit_store_errors_total", "weblimit_outages_total", "weblimit_outage_active", "weblimit_fallback_active", "weblimit_settlements_total"},
			`store_errors_total{class="connection",node="10.0.0.7:6379"} 2`,
			`store_errors_total{class="timeout",node=""} 1`,
			`store_errors_total{class="unknown",node=""} 1`,
			`outages_total{} 0`, // it goes on
			`outage_active{} 1`,
			`fallback_active{} 1`,
			`settlements_total{kind="failed",limit="refunded"} 1`,
			`settlements_total{kind="refunded",limit="refunded"} 0`,
			`settlements_total{kind="charged",limit="refunded"} 0`,
			`settlements_total{kind="forgiven",limit="refunded"} 0`,
		)
		wantValues(t, registry, []string{"weblimit_decisions_total"},
			`decisions_total{decision="allowed",limit="local",reason="within_limit",route=""} 1`,
			`decisions_total{decision="denied",limit="local",reason="limit_exceeded",route=""} 0`,
			`decisions_total{decision="allowed",limit="local",reason="outage_local",route=""} 3`,
		)
	})
}

func TestBreakersAreListedByNode(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	down := newFlaky()
	limiter(t, core.Config{Store: down, Observe: observer, Limits: []core.Limit{perUser(core.PerHour(3))}})
	for _, e := range []core.Event{
		{Kind: store.EventBreakerOpened, Class: store.ClassTimeout, Node: "a:6379"},
		{Kind: store.EventBreakerOpened, Class: store.ClassTimeout, Node: "b:6379"},
		{Kind: store.EventBreakerClosed, Node: "b:6379"},
		{Kind: store.EventBreakerOpened, Class: store.ClassTimeout, Node: "b:6379"},
		{Kind: store.EventBreakerClosed, Node: "b:6379"},
	} {
		down.Registry().Report(e)
	}
	wantValues(t, registry, []string{"weblimit_breaker_open", "weblimit_breaker_opened_total"},
		`breaker_open{node="a:6379"} 1`,
		`breaker_open{node="b:6379"} 0`,
		`breaker_opened_total{node="a:6379"} 1`,
		`breaker_opened_total{node="b:6379"} 2`,
	)
}

func TestSettlements(t *testing.T) {
	t.Parallel()
	l, registry := observed(t, weblimitprom.Config{},
		perUser(core.PerHour(100)).Named("tokens").FixedWindow().Estimate(10).Debt(7), perUser(core.PerHour(9)).Named("refunded").RefundOn(core.Canceled))
	for _, spent := range []int64{25, 4, 256} {
		d := l.AllowKey(t.Context(), "k", 1)
		must.OK(t, core.Spend(core.NewContext(t.Context(), d), spent))
		d.Settle(core.Outcome{Canceled: spent == 4})
	}
	must.OK(t, l.Drain(t.Context()))
	wantValues(t, registry, []string{"weblimit_settlements_total"},
		`settlements_total{kind="charged",limit="tokens"} 3`,
		`settlements_total{kind="refunded",limit="tokens"} 0`,
		`settlements_total{kind="failed",limit="tokens"} 0`,
		`settlements_total{kind="forgiven",limit="tokens"} 1`,
		`settlements_total{kind="charged",limit="refunded"} 0`,
		`settlements_total{kind="refunded",limit="refunded"} 1`,
		`settlements_total{kind="failed",limit="refunded"} 0`,
		`settlements_total{kind="forgiven",limit="refunded"} 0`,
	)
	wantValues(t, registry, []string{"weblimit_settled_units_total"},
		// 24 and 3 more than the estimate of 1, and 77 of 255 more: then the client owes 7.
		`settled_units_total{kind="charged",limit="tokens"} 104`,
		`settled_units_total{kind="refunded",limit="tokens"} 0`,
		`settled_units_total{kind="failed",limit="tokens"} 0`,
		`settled_units_total{kind="forgiven",limit="tokens"} 178`,
		`settled_units_total{kind="charged",limit="refunded"} 0`,
		`settled_units_total{kind="refunded",limit="refunded"} 1`,
		`settled_units_total{kind="failed",limit="refunded"} 0`,
		`settled_units_total{kind="forgiven",limit="refunded"} 0`,
	)
}

// One observer serves several limiters and stores. Buckets are counted once per store, however many
// limiters are on it.
func TestSeveralLimitersAndStores(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	one, other := core.NewMemory(), core.NewMemory()
	for i, s := range []core.Store{one, struct{ core.Store }{one}, other} {
		l := limiter(t, core.Config{Store: s, Observe: observer, Limits: []core.Limit{perUser(core.PerHour(3)).Named(fmt.Sprint("l", i))}})
		l.AllowKey(t.Context(), "k", 1)
	}
	wantValues(t, registry, []string{"weblimit_buckets", "weblimit_waiting_requests", "weblimit_outage_active", "weblimit_fallback_active"},
		`buckets{} 3`, `waiting_requests{} 0`, `outage_active{} 0`, `fallback_active{} 0`)
}

// A version is listed while a limiter decides by it.
func TestPolicyInfo(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	store := core.NewMemory()
	config := func(version string) core.Config {
		return core.Config{Store: store, Observe: observer, Version: version, Limits: []core.Limit{perUser(core.PerHour(3))}}
	}
	var live compose.Live
	l := must.Get(live.Limiter(config("v1")))(t)
	wantValues(t, registry, []string{"weblimit_policy_info"}, `policy_info{version="v1"} 1`)
	must.OK(t, live.Replace(config("v2")))
	both := []string{"weblimit_policy_info", "weblimit_policy_refused"}
	wantValues(t, registry, both, `policy_info{version="v2"} 1`, `policy_refused{} 0`)
	live.Refuse(true)
	wantValues(t, registry, both, `policy_info{version="v2"} 1`, `policy_refused{} 1`)
	live.Refuse(false)
	wantValues(t, registry, both, `policy_info{version="v2"} 1`, `policy_refused{} 0`)
	runtime.KeepAlive(l)
}

func TestWaitingRequests(t *testing.T) {
	t.Parallel()
	l, registry := observed(t, weblimitprom.Config{},
		perUser(core.PerMinute(1)).LeakyBucket(time.Hour).Named("paced"))
	l.AllowKey(t.Context(), "k", 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.AllowKey(ctx, "k", 1)
	}()
	wait.Until(t, "a request waits", func() bool { return l.Stats().Waiting > 0 })
	wantValues(t, registry, []string{"weblimit_waiting_requests"}, `waiting_requests{} 1`)
	cancel()
	<-done
	wantValues(t, registry, []string{"weblimit_waiting_requests", "weblimit_wait_duration_seconds"},
		`wait_duration_seconds{limit="paced"} 1`, `waiting_requests{} 0`)
}
