package proxies

import (
	"testing"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/keyfuncs"
)

// One proxy in front of another, in every order.
func TestForgedRequestsThroughTwoProxies(t *testing.T) {
	t.Parallel()
	for _, outer := range proxies {
		for _, inner := range proxies {
			t.Run(outer.name+" "+inner.name, func(t *testing.T) {
				t.Parallel()
				l := listen(t, "tcp")
				back := inner.startInner(t, l.Addr(), innerEdits(inner)...)
				front := outer.start(t, back)
				routes := []*Route{
					newRoute(t, "/trusted", keyfuncs.TrustedProxies(trusted)),
					newRoute(t, "/hops", keyfuncs.HopCount(2)),
				}
				stop := serve(t, frameworks.All[0], l, routes)
				for _, r := range routes {
					forge(t, front, r)
				}
				front.stop()
				back.stop()
				stop()
				for _, r := range routes {
					r.settle(t)
				}
			})
		}
	}
}

// innerEdits are the changes that docs/run/proxies.md asks for behind another proxy.
func innerEdits(p *proxy) []string {
	if p == &caddy {
		return []string{"header_up -Forwarded", "header_up -Forwarded\n\t\ttrusted_proxies " + trusted}
	}
	return nil
}
