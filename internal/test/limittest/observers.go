package limittest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// observer notes what it hears.
type observer struct {
	core.NopObserver

	mu      sync.Mutex
	heard   []string        // Guarded by mu.
	unasked []time.Duration // how long stores took that were not asked. Guarded by mu.
	settled int64           // units. Guarded by mu.
}

// Decided implements core.Observer.
func (o *observer) Decided(_ context.Context, seen *core.Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var keys []string
	for i := range seen.Decision.Results() {
		keys = append(keys, fmt.Sprintf("%s*%d", seen.Key(i), seen.Cost(i)))
	}
	if keys == nil != (seen.CheckTime == 0) {
		o.unasked = append(o.unasked, seen.CheckTime)
	}
	o.heard = append(o.heard, strings.Join([]string{
		seen.Adapter, seen.Method, strings.NewReplacer(":id", "{id}", "{$}", "").Replace(seen.Route()), seen.Decision.Reason.String(), strings.Join(keys, "+"),
	}, " "))
}

// Settled implements core.Observer.
func (o *observer) Settled(s core.Settlement) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settled += s.Units
}

// hears checks what was heard since the last time.
func (o *observer) hears(e *env, want ...string) {
	e.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range want {
		want[i] = e.adapter + " " + want[i]
	}
	if !slices.Equal(o.heard, want) || len(o.unasked) > 0 {
		e.Errorf("observed\n %q\nwant\n %q\nstores that took no time, or took some and were not asked: %v", o.heard, want, o.unasked)
	}
	o.heard, o.unasked = nil, nil
}

// observed are scenarios of Config.Observe.
var observed = []scenario{
	{"each request is observed once, by adapter, method and route", func(e *env) {
		seen := new(observer)
		layers := e.configured(core.Config{
			Observe: seen, Bypass: []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
			Limits: []core.Limit{
				core.PerDay(3).By(keyfuncs.ClientIP()).Named("client").CostBy(func(r keyfuncs.Request) int64 {
					if r.Method() == "POST" {
						return 2
					}
					return 1
				}),
				core.PerDay(100).By(keyfuncs.Everyone()).Named("all"),
			},
		})
		layers[0].Skip = func(header func(string) string) bool { return header("X-Skip") != "" }
		s := e.serve(App{
			Layers: layers,
			Routes: []Route{
				{Method: "GET", Path: "/items/{id}", Handle: hello},
				{Method: "POST", Path: "/items", Handle: hello},
				{Method: "GET", Path: "/healthz", Handle: hello},
			},
		})
		peer := from("192.0.2.7:1234")
		s.get("/items/7", peer)
		seen.hears(e, "GET /items/{id} within limit ip:192.0.2.7*1+all*1")
		s.do("POST", "/items", peer)
		seen.hears(e, "POST /items within limit ip:192.0.2.7*2+all*1")
		e.denied("the third", s.get("/items/8", peer))
		seen.hears(e, "GET /items/{id} limit exceeded ip:192.0.2.7*1+all*1")
		s.get("/nowhere", from("192.0.2.8:1234"))
		seen.hears(e, "GET  within limit ip:192.0.2.8*1+all*1")
		s.get("/healthz", peer)
		seen.hears(e, "GET /healthz bypassed ")
		s.get("/items/9", peer, with("X-Skip", "yes"))
		seen.hears(e)
	}},

	{"limiters around one another are observed each", func(e *env) {
		outer, inner := new(observer), new(observer)
		store := e.newStore(e)
		layer := func(name string, o core.Observer) []Layer {
			return e.configured(core.Config{Store: store, Observe: o, Limits: []core.Limit{core.PerDay(1).By(keyfuncs.Everyone()).Named(name)}})
		}
		s := e.serve(App{Layers: layer("outer", outer), Routes: []Route{{Method: "GET", Path: "/items/{id}", Layers: layer("inner", inner), Handle: hello}}})
		s.get("/items/7")
		s.get("/items/7")
		outer.hears(e, "GET /items/{id} within limit all*1", "GET /items/{id} limit exceeded all*1")
		inner.hears(e, "GET /items/{id} within limit all*1")
	}},

	{"what a failure gives back is observed", func(e *env) {
		seen := new(observer)
		layers := e.configured(core.Config{Observe: seen, Limits: []core.Limit{
			core.PerDay(9).By(keyfuncs.Everyone()).Cost(3).RefundOn(core.ServerErrors),
		}})
		s := e.serve(App{Layers: layers, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			c.Reply(http.StatusInternalServerError, "broken")
		}}}})
		s.get("/")
		seen.hears(e, "GET / within limit all*3")
		e.eventually("the refund is observed", func() bool {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			return seen.settled == -3
		}, func() any { return seen.settled })
	}},
}
