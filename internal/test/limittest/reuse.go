package limittest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/keyfuncs"
)

// kept is a value that a handler keeps after its request.
type kept struct {
	decision core.Decision
	ctx      context.Context
	then     string // as it printed during the request
}

func (k kept) String() string {
	d, ok := core.FromContext(k.ctx)
	return fmt.Sprintf("%+v %+v %v %v", k.decision.Results(), d.Results(), d.Reason, ok)
}

// reuses are scenarios of many requests over few connections, whose buffers a framework
// may reuse for the next request.
var reuses = []scenario{
	{"keys of one request are not those of the next on the same connection", func(e *env) {
		const clients, rounds, quota = 4, 4, 3
		tenants := long.Rounds(8, 25)
		for what, tt := range map[string]struct {
			key     keyfuncs.Func
			request func(name string) (path string, options []option)
		}{
			"header":  {keyfuncs.Header("X-Tenant"), func(name string) (string, []option) { return "/", []option{with("X-Tenant", name)} }},
			"API key": {keyfuncs.APIKey(), func(name string) (string, []option) { return "/", []option{with("Authorization", "Bearer "+name)} }},
			"query":   {keyfuncs.APIKey("?key"), func(name string) (string, []option) { return "/?key=" + name, nil }},
			"cookie":  {keyfuncs.Cookie("sid"), func(name string) (string, []option) { return "/", []option{with("Cookie", "sid="+name)} }},
			"user":    {keyfuncs.User(UserLocal), func(name string) (string, []option) { return "/", []option{user(name)} }},
			"custom": {keyfuncs.Custom("plan", func(r keyfuncs.Request) string { v, _ := r.Header("X-Tenant", 0); return v }), func(name string) (string, []option) {
				return "/", []option{with("X-Tenant", name)}
			}},
			"address": {keyfuncs.ClientIP(keyfuncs.TrustedProxies(keyfuncs.Loopback)), func(name string) (string, []option) {
				return "/", []option{with("X-Forwarded-For", "192.0.2."+strings.TrimLeft(name[4:], "0"))}
			}},
		} {
			var mu sync.Mutex
			var all []kept
			warned := make(map[string]bool)
			s := e.serve(App{
				SignIn: InLocals,
				Layers: e.configured(core.Config{
					Limits: []core.Limit{core.PerDay(quota).By(tt.key).Named("each").WarnAt(1)},
					OnWarning: func(_ context.Context, w core.Warning) {
						mu.Lock()
						defer mu.Unlock()
						warned[w.Key] = true
					},
				}),
				Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
					k := kept{ctx: c.Context()}
					k.decision, _ = c.Decision()
					k.then = k.String()
					mu.Lock()
					all = append(all, k)
					mu.Unlock()
					hello(c)
				}}},
			})
			transport := &http.Transport{MaxConnsPerHost: 2, MaxIdleConnsPerHost: 2}
			e.Cleanup(transport.CloseIdleConnections)
			client := &http.Client{Transport: transport, Timeout: patience}
			base := s.server.Listen(e)
			passed := make(map[string]int)
			var wg sync.WaitGroup
			for c := range clients {
				wg.Go(func() {
					for range rounds {
						for i := range tenants {
							name := fmt.Sprintf("key-%03d", c*tenants+i+1)
							path, options := tt.request(name)
							r, err := http.NewRequestWithContext(e.Context(), "GET", base+path, http.NoBody)
							if err != nil {
								e.Error(err)
								return
							}
							for _, o := range options {
								r = o(r)
							}
							res, err := client.Do(r)
							if err != nil {
								e.Error(err)
								return
							}
							status := e.read(res).status
							_ = res.Body.Close()
							mu.Lock()
							if status == http.StatusOK {
								passed[name]++
							}
							mu.Unlock()
						}
					}
				})
			}
			wg.Wait()
			equal(e, what+": clients that passed", len(passed), clients*tenants)
			for name, n := range passed {
				equal(e, what+": passed of "+name, n, quota)
			}
			equal(e, what+": keys in warnings", len(warned), clients*tenants)
			equal(e, what+": handlers that kept something", len(all), clients*tenants*quota)
			for _, k := range all {
				if now := k.String(); now != k.then {
					e.Errorf("%s: a decision changed after its request:\n now %s\nthen %s", what, now, k.then)
					break
				}
			}
		}
	}},
}
