package proxies

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// With the configurations of docs/run/proxies.md, WebSockets reach the application. Each is charged as the one request by which it begins.
// An upgrade to HTTP/2 does not reach it: an application might grant it by that header alone.
func TestWebSocketsThroughProxies(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, "tcp")
			r := newRoute(t, "/", keyfuncs.TrustedProxies(trusted))
			limited := nethttp.New(r.Limiter)(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if Upgrade(w, req) {
					r.ran.Add(1)
					return
				}
				w.WriteHeader(http.StatusUpgradeRequired)
			}))
			server := &frameworks.Std{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if upgrade := req.Header.Get("Upgrade"); upgrade != "" && !strings.EqualFold(upgrade, "websocket") {
					t.Errorf("the application is asked to upgrade to %q", upgrade)
				}
				limited.ServeHTTP(w, req)
			})}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = server.Serve(l) // until shutdown
			}()
			front := p.start(t, l.Addr())
			for i := range quota + 2 {
				want := http.StatusSwitchingProtocols
				if i >= quota {
					want = http.StatusTooManyRequests
				}
				if res := must.Get(WebSocket(t, attacker, front.addr, "/", "WebSocket"))(t); res.StatusCode != want {
					t.Errorf("WebSocket %d of %d: %s, want %d", i+1, quota, res.Status, want)
				}
			}
			for _, upgrade := range []string{"h2c", "H2C", "websocket, h2c"} {
				_ = must.Get(WebSocket(t, attacker, front.addr, "/", upgrade))(t)
			}
			front.stop()
			server.Shutdown()
			<-done
			if ran := r.ran.Load(); ran != quota {
				t.Errorf("%d WebSockets reached the application, want %d", ran, quota)
			}
		})
	}
}
