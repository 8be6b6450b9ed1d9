package gateways

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/proxies"
	"github.com/weblimit/weblimit/internal/test/long"
)

// sizes of requests are about the bounds of gateways and of the limiter, and more are between them.
var (
	sizes = []int{1000, 4000, 7000, 8000, 8100, 12_000, 14_000, 14_500, 14_900, 15_000, 15_100, 15_200, 15_300, 15_400, 15_800, 16_000, 16_300, 20_000, 32_000, 60_000, 1_047_000, 1_048_400, 1_052_000}
	more  = []int{30_000, 500_000, 1_000_000, 1_048_000, 1_050_000}
)

// A request that is so large that asking about it fails must not count as a limiter that is away: the
// client could choose that policy, for itself or for everybody.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		for _, policy := range p.policies {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				s := p.usedUp(t, policy)
				c := s.client(t, s.bystander)
				for _, size := range slices.Concat(sizes, long.Rounds(nil, more)) {
					var wg sync.WaitGroup // some gateways wait for half a second before they close such a connection
					for _, request := range []string{
						"GET /things HTTP/1.1\r\nHost: example.com\r\nX-A: " + strings.Repeat("a", size) + "\r\n\r\n",
						"GET /things HTTP/1.1\r\nHost: example.com\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 7000)+"\r\n", size/7009+1) + "\r\n",
						"GET /things?" + strings.Repeat("a", size) + " HTTP/1.1\r\nHost: example.com\r\n\r\n",
					} {
						wg.Go(func() { s.refuses(t, fmt.Sprintf("%d bytes, %.20q", size, request), request) })
					}
					wg.Wait()
				}
				for _, n := range []int{50, 80, 90, 94, 95, 96, 97, 98, 99, 100, 101, 102, 200, 1000} {
					s.refuses(t, fmt.Sprintf("%d lines", n), "GET /things HTTP/1.1\r\nHost: example.com\r\n"+strings.Repeat("X-A: a\r\n", n)+"\r\n")
				}
				if got := s.ask(t, c, 5); got.limited != 5 {
					t.Errorf("another client: %+v", got)
				}
				if n := s.served.Load(); n > 5 {
					t.Errorf("%d requests were served", n-5)
				}
			})
		}
	})
}

// isOrdinary reports whether a byte is read as others are of which there are tests: letters and digits, and what no ASCII is.
func isOrdinary(b byte) bool {
	return b > '0' && b <= '9' || b > 'A' && b <= 'Z' || b > 'a' && b <= 'z' || b > 0xa0 && b < 0xff && b%16 != 0
}

// Any byte in the target, and any method, is decided or refused.
func TestOddTargets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.usedUp(t, p.policies[len(p.policies)-1])
		for b := range 256 {
			if !long.Run() && isOrdinary(byte(b)) {
				continue
			}
			s.refuses(t, fmt.Sprintf("byte %#x", b), "GET /things/"+string([]byte{byte(b)})+"x?y="+string([]byte{byte(b)})+" HTTP/1.1\r\nHost: example.com\r\n\r\n")
			s.refuses(t, fmt.Sprintf("byte %#x in a header", b), "GET /things HTTP/1.1\r\nHost: example.com\r\nX-A: a"+string([]byte{byte(b)})+"b\r\n\r\n")
		}
		for _, line := range []string{
			"OPTIONS * HTTP/1.1", "GET * HTTP/1.1", "CONNECT example.com:443 HTTP/1.1", "GET things HTTP/1.1", "GET ?x HTTP/1.1", "GET /%zz HTTP/1.1", "GET /% HTTP/1.1",
			"GET http:///things HTTP/1.1", "GET http://example.com HTTP/1.1", "GET https://other.example/things HTTP/1.1", "GET ftp://example.com/things HTTP/1.1",
			"G(T /things HTTP/1.1", "get /things HTTP/1.1", "PRI * HTTP/2.0", "GET /things HTTP/1.2", "GET /things HTTP/0.9", "GET /things",
		} {
			s.refuses(t, line, line+"\r\nHost: example.com\r\n\r\n")
		}
		served := s.served.Load()
		got := proxies.Targets(t, s.attacker, s.addr, "/things", "*", "things", "//things", "http://example.com/things", "https://other.example/things", "?x", "/things#x",
			"/things x", "/things\x00", "/things\r\nX-Forwarded-For: 198.51.100.1", "/th\xffings", "/\u00e9", "//", "/./things", "/%2e%2e/things", "example.com:443")
		for status := range got {
			if status == 200 || status >= 500 && status != 501 && status != 505 {
				t.Errorf("HTTP/2: the answers are %v", got)
			}
		}
		if n := s.served.Load() - served; n > 0 || got[429] == 0 {
			t.Errorf("HTTP/2: %d requests were served, and the answers are %v", n, got)
		}
		if got := s.ask(t, s.client(t, s.bystander), 5); got.limited != 5 {
			t.Errorf("another client: %+v", got)
		}
		s.refusedNone(t)
	})
}

// refuses sends a request of a client whose limit is used up. The gateway may not understand it, or close the
// connection, but the application must not get it.
func (s *setup) refuses(t *testing.T, what, request string) {
	t.Helper()
	served := s.served.Load()
	a, err := s.try(t, s.attacker, request)
	switch {
	case s.served.Load() > served:
		t.Errorf("%s: was served: %s", what, s.last.Load().RequestURI)
	case err != nil: // closed
	case a.StatusCode == http.StatusOK && a.body != "" || a.StatusCode >= 500 && a.StatusCode != http.StatusNotImplemented && a.StatusCode != http.StatusHTTPVersionNotSupported:
		t.Errorf("%s: got %s %.200s", what, a.Status, a.body)
	}
}

// refusedNone fails the test if the limiter refused subrequests: then a client can make the gateway ask what is wrong.
func (s *setup) refusedNone(t *testing.T) {
	t.Helper()
	if said := s.limiter.log()[s.logged:]; strings.Contains(said, "refused") {
		t.Errorf("the limiter refused subrequests:\n%s", said)
	}
}
