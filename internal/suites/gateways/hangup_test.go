package gateways

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/proxies"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Clients that hang up while the gateway asks don't make it take the limiter for away: otherwise they could
// choose that policy for everybody.
func TestClientsThatHangUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.start(t, fast, p.policies[len(p.policies)-1]) // open
		d := &tls.Dialer{
			NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(proxies.Attacker)}, Timeout: patience},
			Config:    &tls.Config{InsecureSkipVerify: true, ServerName: "example.com", ClientSessionCache: sessions, CurvePreferences: cheapest}, //nolint:gosec // made up a moment ago
		}
		c := s.client(t, proxies.Bystander)
		for i := range 200 {
			conn := must.Get(d.DialContext(t.Context(), "tcp", s.addr))(t)
			for range 3 {
				_, _ = io.WriteString(conn, "GET /things HTTP/1.1\r\nHost: example.com\r\n\r\n")
			}
			if tcp, ok := conn.(*tls.Conn).NetConn().(*net.TCPConn); ok && i%2 == 0 {
				_ = tcp.SetLinger(0) // a reset
			}
			_ = conn.(*tls.Conn).NetConn().Close()
			if i%20 == 0 {
				if got := s.ask(t, c, 5); got.limited != 5 {
					t.Fatalf("after %d clients: %+v", i, got)
				}
			}
		}
		if got := s.ask(t, c, 20); got.limited != 20 {
			t.Errorf("%+v", got)
		}
		if strings.Contains(s.gateway.Log(), token) { // Traefik 3.7 logs the address that was asked
			t.Error("the gateway's log has the token")
		}
	})
}

// Clients that reset their requests, over HTTP/2, are charged for those that reach the application, and don't make the
// gateway take the limiter for away.
func TestClientsThatResetStreams(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.shared(t, p.policies[len(p.policies)-1]) // open
		c := s.client(t, s.bystander)
		for range 4 {
			proxies.Resets(t, s.attacker, s.addr, "/things", 5)
			if got := s.ask(t, c, 5); got.limited != 5 {
				t.Fatalf("another client: %+v", got)
			}
		}
		proxies.Send(t, s.attacker, s.addr, repeat("GET /things HTTP/1.1\r\nHost: example.com\r\n\r\n", 110)...)
		if n := s.served.Load() - 20; n > 100 {
			t.Errorf("%d requests of the client that resets streams were served, of 100 a day", n)
		}
		s.refusedNone(t)
	})
}
