package proxies

import (
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The warnings of docs/run/proxies.md are true: if a proxy passes on a client's headers and
// the application trusts them, the client chooses its address.
func TestProxiesThatPassOnWhatClientsWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		proxy    *proxy
		edits    []string
		strategy keyfuncs.Strategy
		lie      field
		inner    *proxy // behind it, if there is one
	}{
		{
			"nginx without proxy_set_header X-Forwarded-For", &nginx,
			[]string{"proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;", ""},
			keyfuncs.TrustedProxies(trusted),
			field{"X-Forwarded-For", "198.51.100.1"},
			nil,
		},
		{
			"nginx without proxy_set_header X-Real-IP", &nginx,
			[]string{"proxy_set_header X-Real-IP       $remote_addr;", ""},
			keyfuncs.XRealIP(trusted),
			field{"X-Real-IP", "198.51.100.1"},
			nil,
		},
		{
			"HAProxy with option forwardfor if-none", &haproxy,
			[]string{"option forwardfor\n", "option forwardfor if-none\n"},
			keyfuncs.TrustedProxies(trusted),
			field{"X-Forwarded-For", "198.51.100.1"},
			nil,
		},
		{
			"Caddy that trusts its clients", &caddy,
			[]string{"header_up -Forwarded", "header_up X-Forwarded-For {header.X-Forwarded-For}"},
			keyfuncs.TrustedProxies(trusted),
			field{"X-Forwarded-For", "198.51.100.1"},
			nil,
		},
		{
			"Caddy without header_up -Forwarded", &caddy,
			[]string{"header_up -Forwarded", ""},
			keyfuncs.Forwarded(trusted),
			field{"Forwarded", "for=198.51.100.1"},
			nil,
		},
		{
			"more hops than proxies", &haproxy,
			nil,
			keyfuncs.HopCount(2),
			field{"X-Forwarded-For", "198.51.100.1"},
			nil,
		},
		{
			"a header that no proxy sets", &nginx,
			nil,
			keyfuncs.SingleHeader("True-Client-IP", trusted),
			field{"True-Client-IP", "198.51.100.1"},
			nil,
		},
		{
			"a client in the networks of the proxies", &nginx,
			nil,
			keyfuncs.TrustedProxies(keyfuncs.Loopback),
			field{"X-Forwarded-For", "198.51.100.1"},
			nil,
		},
		{
			"HAProxy without http-request deny, in front of Caddy", &haproxy,
			[]string{"http-request deny if { req.hdr(Connection)", "http-request set-header X-Denied 1 if { req.hdr(Connection)"},
			keyfuncs.TrustedProxies(trusted),
			field{"Connection", "X-Forwarded-For"},
			&caddy,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, "tcp")
			app, stopInner := l.Addr(), func() {}
			if c.inner != nil {
				back := c.inner.startInner(t, app, innerEdits(c.inner)...)
				app, stopInner = back, back.stop
			}
			front := c.proxy.start(t, app, c.edits...)
			r := newRoute(t, "/", c.strategy)
			stop := serve(t, frameworks.All[0], l, []*Route{r})
			plain := forgery{fields: []field{{c.lie.name, valueFor(c.lie.name, "198.51.100.9")}}}.http1("/")
			pipeline(t, attacker, front.addr, pause, bytesOf(plain, quota+1)) // uses up the quota
			got := pipeline(t, attacker, front.addr, pause, [][]byte{forgery{fields: []field{c.lie}}.http1("/")})
			front.stop()
			stopInner()
			stop()
			if got[http.StatusOK] != 1 {
				t.Errorf("the client did not get past its limit: %v; then the warning in the document is wrong", got)
			}
		})
	}
}
