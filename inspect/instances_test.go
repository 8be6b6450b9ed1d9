package inspect_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
	"github.com/weblimit/weblimit/nethttp"
)

// One page shows what all instances have counted.
func TestOnePageShowsAllInstances(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	newInstance := func(name string) *instance {
		s := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
		heavy := top.New(top.Config{Exchange: s.Exchange(), Instance: name, Interval: time.Second})
		t.Cleanup(heavy.Close)
		limiter := core.Must(core.New(core.Config{
			Store: s, Observe: heavy, Timeout: 2 * time.Second,
			Limits: []core.Limit{core.PerHour(5).By(keyfuncs.Header("X-User")).Named("hourly")},
		}))
		in := start(t, s, func(c *inspect.Config) { c.Top = heavy })
		in.app = nethttp.New(limiter)(http.NotFoundHandler())
		return in
	}
	one, other := newInstance("one"), newInstance("other")
	began := time.Now()
	for {
		other.request("mallory") // again and again: what is counted before instances have found each other is not shared
		o := one.overview(t)
		if len(o.Instances) == 2 && len(o.Denied) == 1 && o.Denied[0].Key == "header.x-user:mallory" && o.Denied[0].Minute.Denied > 0 {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("after ten seconds the page of one shows %+v of the instances %+v", o.Denied, o.Instances)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// A client of another tier is explained by the numbers that it has.
func TestAClientOfATierIsExplainedByItsOwnNumbers(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	in := start(t, s)
	limiter := core.Must(core.New(core.Config{Store: s, Observe: in.heavy, Limits: []core.Limit{
		core.PerMinute(3).By(keyfuncs.Header("X-User")).Named("plan").Tiers(func(r keyfuncs.Request) core.Limit {
			if plan, ok := r.Header("X-Plan", 0); ok && plan == "large" {
				return core.PerMinute(20)
			}
			return core.PerMinute(3)
		}),
	}}))
	app := nethttp.New(limiter)(http.NotFoundHandler())
	for range 25 {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-User", "acme")
		r.Header.Set("X-Plan", "large")
		app.ServeHTTP(httptest.NewRecorder(), r)
	}
	var e explanation
	in.must(t, "POST", "api/v1/explain", `{"query":"header.x-user:acme"}`, &e)
	if k := e.Keys[0]; len(k.Limits) != 1 || k.Limits[0].Used != 20 || !strings.HasPrefix(k.Summary, "Denied by plan. All 20 used, and 20 come back per 1m.") {
		t.Errorf("got %+v", k)
	}
}
