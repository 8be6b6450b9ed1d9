package limittest

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

var contexts = []scenario{
	{"the handler finds the decision", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(
				core.PerHour(10).By(keyfuncs.Everyone()).Named("roomy"),
				core.PerHour(5).By(keyfuncs.Everyone()).Named("tight"),
			),
			Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
				mine, ok := c.Decision()
				std, stdOK := core.FromContext(c.Context())
				a, _ := mine.Binding()
				b, _ := std.Binding()
				c.Reply(200, fmt.Sprint(ok, stdOK, mine.Allowed, " ", mine.Reason, " ", a.Rule.Name, a.Remaining, " ", b.Rule.Name, b.Remaining))
			}}},
		})
		equal(e, "decision", s.get("/").body, "true true true within limit tight4 tight4")
	}},
	{"of two limiters the handler finds the decision of the inner one", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(core.PerHour(5).By(keyfuncs.Everyone()).Named("outer")),
			Routes: []Route{{
				Method: "GET", Path: "/",
				Layers: e.layer(core.PerHour(50).By(keyfuncs.Everyone()).Named("inner")),
				Handle: func(c Call) {
					d, _ := c.Decision()
					b, _ := d.Binding()
					c.Reply(200, b.Rule.Name)
				},
			}},
		})
		equal(e, "decision", s.get("/").body, "inner")
	}},
	{"without a limiter there is no decision", func(e *env) {
		s := e.serve(App{Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			_, mine := c.Decision()
			_, std := core.FromContext(c.Context())
			c.Reply(200, fmt.Sprint(mine, std))
		}}}})
		r := s.get("/")
		equal(e, "decision", r.body, "false false")
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), "")
	}},
	{"the handler's context is still the request's", func(e *env) {
		s := e.serve(App{
			SignIn: InContext,
			Layers: e.layer(core.PerHour(5).By(keyfuncs.Everyone())),
			Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
				c.Reply(200, fmt.Sprint(c.Context().Value(UserKey{})))
			}}},
		})
		equal(e, "user", s.get("/", user("alice")).body, "alice")
	}},
	{"a skipped request is not limited and not told of limits", func(e *env) {
		layers := e.layer(core.PerHour(1).By(keyfuncs.Everyone()).Named("api"))
		layers[0].Skip = func(header func(string) string) bool { return header("X-Internal") == "yes" }
		s := e.serve(App{Layers: layers, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			_, ok := c.Decision()
			c.Reply(200, fmt.Sprint("decided: ", ok))
		}}}})
		for range 5 {
			r := s.get("/", with("X-Internal", "yes"))
			equal(e, "body", r.body, "decided: false")
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), "")
			equal(e, "RateLimit", e.only(r, "Ratelimit"), "")
		}
		equal(e, "body", s.get("/").body, "decided: true")
		e.denied("second", s.get("/"))
		e.passes("skipped", s.get("/", with("X-Internal", "yes")))
	}},
	{"a client that is gone is charged and trips nothing", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(core.PerHour(5).By(keyfuncs.Everyone()).Named("api").OnOutage(core.Deny)),
			Routes: []Route{{Method: "GET", Path: "/", Handle: hello}},
		})
		gone, cancel := context.WithCancel(e.Context())
		cancel()
		s.get("/", within(gone))
		s.get("/", within(gone))
		r := s.get("/")
		equal(e, "status", r.status, http.StatusOK)
		e.remaining("after two that are gone", r, "api", 2)
	}},
	{"Limit is New with all else by default", func(e *env) {
		// Always in memory: the default timeout is too short for Redis on a busy machine.
		s := e.serve(App{Layers: []Layer{{
			Store: core.NewMemory(),
			Limits: []core.Limit{
				core.PerHour(2).By(keyfuncs.ClientIP()).Named("client"),
				core.PerHour(9).By(keyfuncs.Everyone()).Named("all"),
			},
		}}})
		r := s.get("/")
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"client";q=2;w=3600, "all";q=9;w=3600`)
		equal(e, "RateLimit", e.only(r, "Ratelimit"), `"client";r=1;t=1800, "all";r=8;t=3200`)
		e.passes("second", s.get("/"))
		r = s.get("/")
		e.denied("third", r)
		equal(e, "body", r.body, problem(e.wait(r, 1800), `"client"`))
	}},
	{"a limit that can't work panics at start-up", func(e *env) {
		store := core.NewMemory()
		for name, limits := range map[string][]core.Limit{
			"without By":      {core.PerHour(5)},
			"with quota 0":    {core.PerHour(0).By(keyfuncs.Everyone())},
			"none":            {},
			"two of one name": {core.PerHour(1).By(keyfuncs.Everyone()), core.PerHour(2).By(keyfuncs.Everyone())},
		} {
			func() {
				defer func() {
					if recover() == nil {
						e.Errorf("%s: no panic", name)
					}
				}()
				e.serve(App{Layers: []Layer{{Store: store, Limits: limits}}})
			}()
		}
	}},
	{"a function of a limit that panics leaves nothing for the next request", func(e *env) {
		for _, noContext := range []bool{false, true} {
			layers := e.layer(core.PerHour(5).By(keyfuncs.Header("X-Client")).Named("api"), all("all", 1000).CostBy(func(r keyfuncs.Request) int64 {
				if _, panics := r.Header("X-Panic", 0); panics {
					panic("on purpose, in a test")
				}
				return 1
			}))
			layers[0].NoContext = noContext
			s := e.serve(App{Layers: layers, Routes: []Route{{Method: "GET", Path: "/", Handle: hello}}})
			for _, want := range []int{4, 3, 2} {
				r := s.get("/", with("X-Client", "another"), with("X-Panic", "yes"))
				equal(e, "status of the panic", r.status, http.StatusInternalServerError)
				e.remaining("after a panic", s.get("/", with("X-Client", "one")), "api", want)
			}
			e.remaining("of the client that was not charged", s.get("/", with("X-Client", "another")), "api", 4)
		}
	}},
	{"functions of a limit may ask limiters, also the one that asks them", func(e *env) {
		for _, noContext := range []bool{false, true} {
			others := e.limiter(core.PerHour(50).By(keyfuncs.Header("X-Client")).Named("other"), all("others", 1000))
			var limiter *core.Limiter
			asking := func(r keyfuncs.Request) int64 {
				d := others.Allow(r)
				own := limiter.AllowKey(r.Context(), "of nobody", 1)
				if !d.Allowed || !own.Allowed {
					e.Errorf("a limiter within another: %v, %v", d.Reason, own.Reason)
				}
				return 1
			}
			limiter = e.limiter(core.PerDay(200).By(keyfuncs.Header("X-Client")).Named("api").CostBy(asking))
			s := e.serve(App{
				Layers: []Layer{{Limiter: limiter, NoContext: noContext}},
				Routes: []Route{{Method: "GET", Path: "/", Handle: hello}},
			})
			var group sync.WaitGroup
			for client := range 4 {
				group.Go(func() {
					name := with("X-Client", fmt.Sprint(client))
					for left := 199; left > 190; left-- {
						e.remaining("of one client", s.get("/", name), "api", left)
					}
				})
			}
			group.Wait()
		}
	}},
	{"a handler that panics keeps its charge, and its response the headers", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(core.PerHour(5).By(keyfuncs.Everyone()).Named("api")),
			Routes: []Route{{Method: "GET", Path: "/", Handle: func(Call) { panic("on purpose, in a test") }}},
		})
		for _, want := range []int{4, 3} {
			r := s.get("/")
			equal(e, "status", r.status, http.StatusInternalServerError)
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"api";q=5;w=3600`)
			e.remaining("panic", r, "api", want)
		}
	}},
}
