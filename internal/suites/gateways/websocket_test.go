package gateways

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/proxies"
	"github.com/weblimit/weblimit/internal/test/must"
)

// A WebSocket is asked about by the request with which it begins. A denied one does not reach the application, also while
// the limiter is away.
func TestWebSockets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.shared(t, "")
		open := func(from string) int {
			res := must.Get(proxies.WebSocket(t, from, s.addr, "/things", "websocket"))(t)
			if res.StatusCode == http.StatusTooManyRequests && (res.Header.Get("Retry-After") == "" || res.Header.Get("Content-Type") != "application/problem+json") {
				t.Errorf("denied: %v", res.Header)
			}
			return res.StatusCode
		}
		for range 3 {
			if got := open(s.attacker); got != http.StatusSwitchingProtocols {
				t.Fatalf("got %d", got)
			}
		}
		got := proxies.Send(t, s.attacker, s.addr, repeat("GET /things HTTP/1.1\r\nHost: example.com\r\n\r\n", 110)...)
		if got[200] != 97 || got[429] != 13 {
			t.Errorf("after 3 WebSockets, the answers are %v", got)
		}
		served := s.served.Load()
		if got := open(s.attacker); got != http.StatusTooManyRequests || s.served.Load() != served {
			t.Errorf("above the limit: %d, and %d reached the application", got, s.served.Load()-served)
		}
		if got := open(s.bystander); got != http.StatusSwitchingProtocols {
			t.Errorf("another client: %d", got)
		}
		s.refusedNone(t)
	})
}

// No upgrade but to a WebSocket reaches the application. Over one to HTTP/2, which applications by golang.org/x/net/http2/h2c
// grant, a client would send requests that the limiter is not asked about.
func TestOtherUpgrades(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.shared(t, "")
		for _, upgrade := range []string{"h2c", "H2C", "websocket, h2c", "h2c,websocket", "foo, h2c", "websocket\r\nUpgrade: h2c", "h2c\r\nUpgrade: websocket"} {
			served := s.served.Load()
			a := s.send(t, s.attacker, "GET /things HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "+upgrade+"\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
			if s.served.Load() > served && strings.Contains(strings.ToLower(strings.Join(s.last.Load().Header.Values("Upgrade"), ",")), "h2c") {
				t.Errorf("%q reached the application, and the answer is %s", upgrade, a.Status)
			}
		}
		s.refusedNone(t)
	})
}
