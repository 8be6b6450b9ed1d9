package inspect_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/exchange"
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
		s := redisstore.New(patient(t, server), redisstore.Config{Prefix: prefix})
		heavy := top.New(top.Config{Exchange: s.Exchange(), Instance: name, Interval: time.Second})
		t.Cleanup(heavy.Close)
		limiter := core.Must(core.New(core.Config{
			Store: s, Observe: heavy, Timeout: time.Minute,
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
		if time.Since(began) > 2*time.Minute { // for a busy machine
			t.Fatalf("after two minutes the page of one shows %+v of the instances %+v", o.Denied, o.Instances)
		}
		time.Sleep(200 * time.Millisecond) // Redis has what each instance publishes once a second
	}
}

// The page of one instance shows how the others see their stores: an outage, a server that is not asked,
// and that one has fallen silent.
func TestThePageShowsTheHealthOfAllInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := &exchange.Memory{}
		open := func(name string) *top.Tracker {
			heavy := top.New(top.Config{Exchange: shared, Instance: name, Interval: time.Second})
			t.Cleanup(heavy.Close)
			return heavy
		}
		one, other := open("one"), open("other")
		in := start(t, core.NewMemory(), func(c *inspect.Config) { c.Top = one })
		want := func(after time.Duration, state, store string) {
			t.Helper()
			time.Sleep(after)
			var p struct {
				Instances []struct {
					Name, State, Class string
					Open               []struct{ Node, Class string }
				}
				Silent []struct{ Name string }
				Store  struct{ State string }
			}
			in.must(t, "GET", "api/v1/overview", "", &p)
			check.Equal(t, "instances, and those that are silent", fmt.Sprint(p.Instances, p.Silent), state)
			check.Equal(t, "there is a list of those that are silent", p.Silent != nil, true)
			check.Equal(t, "the store of the instance itself", p.Store.State, store)
		}
		const soon = 3 * time.Second // the others have published, and the page is made again
		want(soon, "[{one ok  []} {other ok  []}] []", "ok")
		other.StoreEvent(core.Event{Kind: store.EventBreakerOpened, Class: "timeout", Node: "redis-2:6379"})
		want(soon, "[{one ok  []} {other degraded  [{redis-2:6379 timeout}]}] []", "ok")
		other.StoreEvent(core.Event{Kind: store.EventOutageBegan, Class: "READONLY"})
		want(soon, "[{one ok  []} {other outage READONLY [{redis-2:6379 timeout}]}] []", "ok")
		other.Close()
		want(time.Minute, "[{one ok  []}] [{other}]", "ok")
	})
}

// A client of another tier is explained by the numbers that it has.
func TestAClientOfATierIsExplainedByItsOwnNumbers(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	in := start(t, s)
	limiter := core.Must(core.New(core.Config{Store: s, Observe: in.heavy, Limits: []core.Limit{
		core.PerHour(3).By(keyfuncs.Header("X-User")).Named("plan").Tiers(func(r keyfuncs.Request) core.Limit {
			if plan, ok := r.Header("X-Plan", 0); ok && plan == "large" {
				return core.PerHour(20)
			}
			return core.PerHour(3)
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
	if k := e.Keys[0]; len(k.Limits) != 1 || k.Limits[0].Used != 20 || !strings.HasPrefix(k.Summary, "Denied by plan. All 20 used, and 20 come back per 1h.") {
		t.Errorf("got %+v", k)
	}
}
