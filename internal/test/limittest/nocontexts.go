package limittest

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// noContexts are of limiters whose decisions stay out of the request's context.
var noContexts = []scenario{
	{"with NoContext a limiter decides as without, and the handler finds no decision", func(e *env) {
		for name, limits := range map[string][]core.Limit{
			"one":     {core.PerHour(3).By(keyfuncs.Header("X-Key")).Named("api")},
			"several": {core.PerHour(3).By(keyfuncs.Header("X-Key")).Named("api"), all("all", 1000)},
		} {
			layers := e.layer(limits...)
			layers[0].NoContext = true
			hooked := e.layer(core.PerHour(1).By(keyfuncs.Header("X-Key")).Named("hooked"))
			hooked[0].NoContext = true
			hooked[0].Denied = func(d core.Decision) (int, string) {
				b, _ := d.Binding()
				return http.StatusTooManyRequests, fmt.Sprint(d.Reason, " ", b.Rule.Name)
			}
			s := e.serve(App{Layers: layers, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
				_, mine := c.Decision()
				_, std := core.FromContext(c.Context())
				c.Reply(200, fmt.Sprint(mine, std))
			}}, {Method: "GET", Path: "/hooked", Layers: hooked, Handle: hello}}})
			var group sync.WaitGroup
			for client := range 4 { // at once: decisions are in memory that requests use again
				group.Go(func() {
					key := with("X-Key", fmt.Sprint(name, client))
					for i := range 3 {
						r := s.get("/", key)
						equal(e, name+": decisions in the handler", r.body, "false false")
						contains(e, name+": RateLimit", e.only(r, "Ratelimit"), fmt.Sprintf(`"api";r=%d;t=`, 2-i))
						contains(e, name+": RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"api";q=3;w=3600`)
					}
					for range 3 {
						e.denied(name, s.get("/", key))
					}
				})
			}
			group.Wait()
			key := with("X-Key", name+"hooked")
			s.get("/hooked", key)
			equal(e, name+": the hook's answer", s.get("/hooked", key).body, "limit exceeded hooked")
		}
	}},
	{"with NoContext a handler still reports the cost of an estimate", func(e *env) {
		layers := e.layer(core.PerHour(100).By(keyfuncs.Everyone()).Estimate(10))
		layers[0].NoContext = true
		s := e.serve(App{Layers: layers, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			_, ok := c.Decision()
			c.Reply(200, fmt.Sprint(ok, c.Spend(1)))
		}}}})
		equal(e, "decision and charge", s.get("/").body, "true <nil>")
	}},
}
