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
		time.Sleep(200 * time.Millisecond)
	}
}

// The page of one instance shows how the others see their stores: an outage, a server that is not asked,
// and that one has fallen silent.
func TestThePageShowsTheHealthOfAllInstances(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	open := func(name string) (core.Store, *top.Tracker) {
		s := redisstore.New(patient(t, server), redisstore.Config{Prefix: prefix})
		heavy := top.New(top.Config{Exchange: s.Exchange(), Instance: name, Interval: time.Second})
		t.Cleanup(heavy.Close)
		return s, heavy
	}
	s, heavy := open("one")
	_, other := open("other")
	in := start(t, s, func(c *inspect.Config) { c.Top = heavy })
	type page struct {
		Instances []struct {
			Name, State, Class string
			LastedMS           int64 `json:"lasted_ms"`
			Open               []struct{ Node, Class string }
		}
		Silent []struct{ Name string }
		Store  struct{ State string }
	}
	await := func(what string, holds func(*page) bool) {
		t.Helper()
		var p page
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			p = page{}
			in.must(t, "GET", "api/v1/overview", "", &p)
			if p.Silent == nil {
				t.Fatalf("the page of the instance that is well: %+v", p)
			}
			if p.Store.State == "ok" && holds(&p) { // the store that is well may be slow for a moment
				return
			}
		}
		t.Fatalf("it does not become true that %s; last seen %+v", what, p)
	}
	await("both are well", func(p *page) bool {
		return len(p.Instances) == 2 && p.Instances[0].State == "ok" && p.Instances[1].State == "ok" && len(p.Silent) == 0
	})
	other.StoreEvent(core.Event{Kind: core.EventBreakerOpened, Class: "timeout", Node: "redis-2:6379"})
	await("a server is not asked", func(p *page) bool {
		o := p.Instances[len(p.Instances)-1]
		return o.Name == "other" && o.State == "degraded" && len(o.Open) == 1 && o.Open[0].Node == "redis-2:6379" && o.Open[0].Class == "timeout"
	})
	other.StoreEvent(core.Event{Kind: core.EventOutageBegan, Class: "READONLY"})
	await("the other is in an outage", func(p *page) bool {
		o := p.Instances[len(p.Instances)-1]
		return o.State == "outage" && o.Class == "READONLY" && p.Instances[0].State == "ok"
	})
	other.Close()
	await("the other is silent", func(p *page) bool {
		return len(p.Instances) == 1 && len(p.Silent) == 1 && p.Silent[0].Name == "other"
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
