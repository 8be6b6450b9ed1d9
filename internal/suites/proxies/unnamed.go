package proxies

import (
	"slices"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/keyfuncs"
)

// NoClient runs proxies with and without the header that names the client: a proxy that names no client is noticed behind every framework, and one that does is not:
// that is what WL010 is about.
func NoClient(t *testing.T, all []frameworks.Framework) {
	t.Helper()
	for _, c := range []struct {
		name  string
		proxy *proxy
		edits []string
		want  string
	}{
		{"nginx", &nginx, nil, ""},
		{"HAProxy", &haproxy, nil, ""},
		{"Caddy", &caddy, nil, ""},
		{"nginx without proxy_set_header X-Forwarded-For", &nginx, []string{"proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;", ""}, "X-Forwarded-For"},
		{"HAProxy without option forwardfor", &haproxy, []string{"option forwardfor\n", "\n"}, "X-Forwarded-For"},
		{"Caddy with header_up -X-Forwarded-For", &caddy, []string{"header_up -Forwarded", "header_up -X-Forwarded-For"}, "X-Forwarded-For"},
	} {
		for _, f := range all {
			t.Run(c.name+" "+f.Name, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var seen []string
				key := keyfuncs.ClientIP(keyfuncs.TrustedProxies(trusted))
				r := newRoute(t, "/", keyfuncs.TrustedProxies(trusted))
				r.Limiter = core.Must(core.New(core.Config{
					Store: core.NewMemory(), Limits: []core.Limit{core.PerDay(quota).By(key)}, Silence: []core.Advice{"WL010"},
					Bypass: []keyfuncs.Condition{keyfuncs.Matches(func(r keyfuncs.Request) bool {
						mu.Lock()
						defer mu.Unlock()
						seen = append(seen, key.Unnamed(r))
						return false
					})},
				}))
				front, stop := behind(t, f, c.proxy, "tcp", []*Route{r}, c.edits...)
				pipeline(t, attacker, front.addr, pause, bytesOf(forgery{}.http1("/"), 2))
				stop()
				if !slices.Equal(slices.Compact(seen), []string{c.want}) {
					t.Errorf("the header that is missing: %q, want each time %q", seen, c.want)
				}
			})
		}
	}
}
