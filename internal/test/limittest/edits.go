package limittest

import (
	"net/http"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// edits are of handlers and middleware that change the headers of a response in place.
var edits = []scenario{
	{"what a handler does to the headers of a response reaches no other response", func(e *env) {
		tiers := core.PerHour(1000).By(keyfuncs.Everyone()).Named("plan").
			Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(2000) })
		for name, tt := range map[string]struct {
			limits []core.Limit
			policy string
		}{
			"one":     {[]core.Limit{all("api", 1000)}, `"api";q=1000;w=3600`},
			"several": {[]core.Limit{all("api", 1000), all("all", 1000)}, `"api";q=1000;w=3600, "all";q=1000;w=3600`},
			"tiers":   {[]core.Limit{tiers}, `"plan";q=2000;w=3600`},
		} {
			deface := func(c Call) {
				c.Deface("Ratelimit-Policy")
				c.Deface("Ratelimit")
				hello(c)
			}
			s := e.serve(App{Layers: e.layer(tt.limits...), Routes: []Route{
				{Method: "GET", Path: "/deface", Handle: deface},
				{Method: "GET", Path: "/", Handle: hello},
			}})
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					for range 10 {
						s.get("/deface")
						r := s.get("/")
						equal(e, name+": status", r.status, http.StatusOK)
						equal(e, name+": RateLimit-Policy", e.only(r, "Ratelimit-Policy"), tt.policy)
					}
				})
			}
			group.Wait()
		}
	}},
}
