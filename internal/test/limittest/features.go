package limittest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// configured returns the middleware of a limiter with this config. If the config has no
// store, the limiter gets a new one.
func (e *env) configured(config core.Config) []Layer {
	e.Helper()
	if config.Store == nil {
		config.Store = e.newStore(e)
	}
	config.Timeout = patience
	config.Silence = append(config.Silence, "WL001") // many tests cause it on purpose
	l := must.Get(core.New(config))(e)
	return []Layer{{Limiter: l}}
}

// silent fails the test if a response has a header about a limit.
func (e *env) silent(what string, r response) {
	e.Helper()
	for _, name := range core.ExposeHeaders() {
		if lines := r.header.Values(name); len(lines) != 0 {
			e.Errorf("%s: %s is %q, want none", what, name, lines)
		}
	}
}

func header(name string) func(keyfuncs.Request) string {
	return func(r keyfuncs.Request) string {
		value, _ := r.Header(name, 0)
		return value
	}
}

// posts is hello for GET and POST.
var posts = []Route{{Method: "GET", Path: "/", Handle: hello}, {Method: "POST", Path: "/", Handle: hello}}

var features = []scenario{
	{"a request without the key is left to other limits, if the limit says so", func(e *env) {
		limit := core.PerHour(1).By(keyfuncs.Header("X-Tenant")).Named("tenant").OnMissingKey(core.SkipLimit)
		s := e.serve(App{Layers: e.configured(core.Config{Limits: []core.Limit{limit, core.PerHour(5).By(keyfuncs.Everyone()).Named("all")}})})
		for _, want := range []string{`"all";r=4;t=2880`, `"all";r=3;t=2160`} {
			r := s.get("/")
			equal(e, "status", r.status, 200)
			equal(e, "RateLimit", e.only(r, "Ratelimit"), want)
		}
		s = e.serve(App{Layers: e.configured(core.Config{Limits: []core.Limit{limit}})})
		for range 3 {
			r := s.get("/")
			equal(e, "status", r.status, 200)
			e.silent("a request that no limit applies to", r)
		}
		e.passes("with a key", s.get("/", with("X-Tenant", "a")))
		e.denied("with a key", s.get("/", with("X-Tenant", "a")))
	}},
	{"shadow mode denies nobody and shows nothing", func(e *env) {
		shadow := core.PerHour(1).By(keyfuncs.Everyone()).Named("trial").Shadow().WarnAt(0.5)
		byTenant := core.PerHour(1).By(keyfuncs.Header("X-Tenant")).Named("tenant").Shadow().OnMissingKey(core.DenyRequest)
		free := core.PerHour(1).By(keyfuncs.Everyone()).Named("cost").Shadow().CostBy(func(keyfuncs.Request) int64 { return -1 })
		report := []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			d, _ := c.Decision()
			c.Reply(200, d.Reason.String())
		}}}
		for _, dialects := range []core.Headers{0, core.Draft07 | core.XRateLimit, core.Draft03} {
			for _, limits := range [][]core.Limit{{shadow}, {shadow, byTenant}, {shadow, free}, {byTenant, shadow, free}} {
				s := e.serve(App{Routes: report, Layers: e.configured(core.Config{Headers: dialects, Limits: limits})})
				first := "shadowed" // for a missing key or an invalid cost
				if len(limits) == 1 {
					first = "within limit"
				}
				for _, want := range []string{first, "shadowed", "shadowed"} {
					r := s.get("/")
					equal(e, "status", r.status, 200)
					equal(e, "body", r.body, want)
					e.silent("shadowed", r)
				}
			}
		}
		s := e.serve(App{Routes: report, Layers: e.configured(core.Config{Limits: []core.Limit{shadow, core.PerHour(3).By(keyfuncs.Everyone()).Named("api")}})})
		for _, want := range []string{`"api";r=2;t=2400`, `"api";r=1;t=1200`, `"api";r=0;t=`} {
			r := s.get("/")
			equal(e, "status", r.status, 200)
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"api";q=3;w=3600`)
			equal(e, "RateLimit starts with "+want, strings.HasPrefix(e.only(r, "Ratelimit"), want), true)
			equal(e, "warning", e.only(r, "X-Ratelimit-Warning"), "")
		}
		r := s.get("/")
		e.denied("beyond the enforced limit", r)
		equal(e, "body", r.body, problem(e.wait(r, 1200), `"api"`))
	}},
	{"a limit in shadow mode does not change a response when its store fails", func(e *env) {
		for _, outage := range []core.OutageAction{core.Local, core.Allow, core.Deny} {
			s := e.serve(App{Layers: e.configured(core.Config{
				Store:  e.failing(),
				Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Everyone()).Shadow().OnOutage(outage)},
			})})
			for range 3 {
				r := s.get("/")
				equal(e, "status", r.status, 200)
				equal(e, "body", r.body, "hello")
				e.silent("shadowed", r)
			}
		}
	}},
	{"When and Unless choose the requests of a limit", func(e *env) {
		internal := keyfuncs.Matches(func(r keyfuncs.Request) bool { return header("X-Internal")(r) == "yes" })
		store := e.counting()
		s := e.serve(App{Routes: posts, Layers: e.configured(core.Config{Store: store, Limits: []core.Limit{
			core.PerHour(1).By(keyfuncs.Everyone()).Named("writes").When(keyfuncs.Methods("POST")).Unless(internal),
		}})})
		for range 3 {
			r := s.get("/")
			equal(e, "status of GET", r.status, 200)
			e.silent("GET", r)
			r = s.do("POST", "/", with("X-Internal", "yes"))
			equal(e, "status of an internal POST", r.status, 200)
			e.silent("an internal POST", r)
		}
		equal(e, "requests that reached the store", store.asked(), 0)
		r := s.do("POST", "/")
		e.passes("POST", r)
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"writes";q=1;w=3600`)
		e.denied("POST", s.do("POST", "/", with("X-Internal", "no")))
		equal(e, "requests that reached the store", store.asked(), 2)
	}},
	{"a limit may apply to some routes only", func(e *env) {
		limiter := e.configured(core.Config{Limits: []core.Limit{
			core.PerHour(1).By(keyfuncs.Everyone()).Named("items").When(keyfuncs.Routes("/items/{id}", "/items/:id")),
		}})
		app := App{Routes: slices.Clone(resources)}
		for i := range app.Routes {
			app.Routes[i].Layers = limiter
		}
		s := e.serve(app)
		for range 2 {
			e.silent("another route", s.get("/items/1/parts/2"))
			e.silent("another route", s.get("/"))
		}
		e.try(s, []ask{
			first("/items/1"), again("/items/2"), again("/items/3").by("POST"), first("/items/1/parts/2"), first("/"),
		})
	}},
	{"the cost may be of the request", func(e *env) {
		s := e.serve(App{Layers: e.configured(core.Config{Limits: []core.Limit{
			core.PerHour(10).By(keyfuncs.Everyone()).Named("units").CostBy(func(r keyfuncs.Request) int64 {
				n, err := strconv.ParseInt(header("X-Cost")(r), 10, 64)
				if err != nil {
					return 1
				}
				return n
			}),
		}})})
		for _, tt := range []struct {
			cost       string
			left       int // -1 if the response does not say
			passes     bool
			retryAfter bool
		}{
			{"3", 7, true, false},
			{"", 6, true, false},
			{"0", 6, true, false},
			{"7", 6, false, true},
			{"11", 6, false, false},
			{"-1", -1, false, false},
			{"9223372036854775807", 6, false, false},
			{"6", 0, true, false},
			{"0", 0, true, false},
			{"1", 0, false, true},
		} {
			r := s.get("/", with("X-Cost", tt.cost))
			what := "cost " + tt.cost
			if tt.passes {
				equal(e, what+": status", r.status, 200)
			} else {
				e.denied(what, r)
			}
			if tt.left >= 0 {
				e.remaining(what, r, "units", tt.left)
			} else {
				equal(e, what+": RateLimit", e.only(r, "Ratelimit"), "")
			}
			equal(e, what+": has Retry-After", e.only(r, "Retry-After") != "", tt.retryAfter)
		}
	}},
	{"the numbers may be of the client's plan, and the policy says which", func(e *env) {
		premium := core.PerHour(100).Burst(200)
		s := e.serve(App{Layers: e.configured(core.Config{Limits: []core.Limit{
			core.PerHour(10).By(keyfuncs.Header("X-Tenant")).Named("plan").Tiers(func(r keyfuncs.Request) core.Limit {
				if header("X-Plan")(r) == "premium" {
					return premium
				}
				return core.Limit{}
			}),
		}})})
		for _, tt := range []struct {
			tenant, plan, policy string
			left                 int
		}{
			{"a", "", `"plan";q=10;w=3600`, 9},
			{"b", "premium", `"plan";q=200;w=7200`, 199},
			{"a", "free", `"plan";q=10;w=3600`, 8},
			{"b", "premium", `"plan";q=200;w=7200`, 198},
			{"a", "premium", `"plan";q=200;w=7200`, 197}, // used units stay used
		} {
			r := s.get("/", with("X-Tenant", tt.tenant), with("X-Plan", tt.plan))
			what := tt.tenant + " " + tt.plan
			equal(e, what+": RateLimit-Policy", e.only(r, "Ratelimit-Policy"), tt.policy)
			e.remaining(what, r, "plan", tt.left)
		}
		for range 7 {
			e.passes("free", s.get("/", with("X-Tenant", "c")))
		}
		for range 3 {
			e.passes("free", s.get("/", with("X-Tenant", "c")))
		}
		r := s.get("/", with("X-Tenant", "c"))
		e.denied("free", r)
		equal(e, "body", r.body, problem(e.wait(r, 360), `"plan"`))
		r = s.get("/", with("X-Tenant", "c"), with("X-Plan", "premium"))
		e.passes("after an upgrade", r)
		e.remaining("after an upgrade", r, "plan", 189)
	}},
	{"a warning is on each response from its level on, and an event once", func(e *env) {
		var mu sync.Mutex
		var events []core.Warning
		layers := e.configured(core.Config{
			Limits: []core.Limit{
				core.PerDay(4).By(keyfuncs.Header("X-Tenant")).Named("daily").WarnAt(1, 0.5),
				core.PerDay(1000).By(keyfuncs.Everyone()).Named("all").WarnAt(0.9),
			},
			OnWarning: func(_ context.Context, w core.Warning) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, w)
			},
		})
		s := e.serve(App{Layers: layers, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			d, _ := c.Decision()
			c.Reply(200, fmt.Sprint(d.WarnLevel()))
		}}}})
		round := func(tenant string) {
			e.Helper()
			for _, want := range []struct{ warning, level string }{
				{"", "0"},
				{`approaching limit; policy="daily"; used=50%`, "0.5"},
				{`approaching limit; policy="daily"; used=75%`, "0.5"},
				{`approaching limit; policy="daily"; used=100%`, "1"},
			} {
				r := s.get("/", with("X-Tenant", tenant))
				equal(e, "status", r.status, 200)
				equal(e, "warning", e.only(r, "X-Ratelimit-Warning"), want.warning)
				equal(e, "level", r.body, want.level)
			}
			r := s.get("/", with("X-Tenant", tenant))
			e.denied("fifth", r)
			equal(e, "warning on a denial", e.only(r, "X-Ratelimit-Warning"), "")
		}
		round("a")
		if err := layers[0].Limiter.Reset(e.Context(), "header.x-tenant:a"); err != nil {
			e.Fatal(err)
		}
		round("a")
		round("b")
		want := []core.Warning{
			{Limit: "daily", Level: 0.5, Used: 2, Burst: 4, Key: "header.x-tenant:a"},
			{Limit: "daily", Level: 1, Used: 4, Burst: 4, Key: "header.x-tenant:a"},
			{Limit: "daily", Level: 0.5, Used: 2, Burst: 4, Key: "header.x-tenant:b"},
			{Limit: "daily", Level: 1, Used: 4, Burst: 4, Key: "header.x-tenant:b"},
		}
		if !slices.Equal(events, want) {
			e.Errorf("events:\n got %+v\nwant %+v", events, want)
		}
	}},
	{"of two limiters the warning that is used more is kept", func(e *env) {
		limit := func(n int64, name string) core.Limit {
			return core.PerDay(n).By(keyfuncs.Everyone()).Named(name).WarnAt(0.1)
		}
		for _, tt := range []struct {
			outer, inner int64
			want         string
		}{{2, 5, `approaching limit; policy="outer"; used=50%`}, {5, 2, `approaching limit; policy="inner"; used=50%`}} {
			s := e.serve(App{Layers: append(e.layer(limit(tt.outer, "outer")), e.layer(limit(tt.inner, "inner"))...)})
			equal(e, "warning", e.only(s.get("/"), "X-Ratelimit-Warning"), tt.want)
		}
	}},
}
