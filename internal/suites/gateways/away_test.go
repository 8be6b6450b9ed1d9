package gateways

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/suites/proxies"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// client is an HTTP client at an address, which keeps connections.
func (s *setup) client(t testing.TB, from string) *http.Client {
	t.Helper()
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", s.addr) },
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true, ServerName: "example.com", CurvePreferences: cheapest}, //nolint:gosec // made up a moment ago
		MaxIdleConnsPerHost: 16,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// tally says how requests were answered.
type tally struct {
	bare     bool // as program.bare
	statuses map[int]int
	unnamed  []string // errors, and denials without a problem
	limited  int      // of those that passed, how many have RateLimit
	longest  time.Duration
}

// ask sends n requests one after the other.
func (s *setup) ask(t testing.TB, c *http.Client, n int) *tally {
	t.Helper()
	got := &tally{bare: s.bare, statuses: map[int]int{}}
	for range n {
		got.ask(c)
	}
	return got
}

// ask sends a request, and reports whether the limiter has decided it.
func (got *tally) ask(c *http.Client) (decided bool) {
	began := time.Now()
	res, err := c.Get("https://example.com/things")
	if err != nil {
		got.unnamed = append(got.unnamed, err.Error())
		return false
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	got.longest = max(got.longest, time.Since(began))
	if got.bare && res.StatusCode >= 502 && res.StatusCode <= 504 {
		got.statuses[503]++
		return false
	}
	got.statuses[res.StatusCode]++
	switch {
	case err != nil:
		got.unnamed = append(got.unnamed, err.Error())
	case res.StatusCode == http.StatusOK:
		if res.Header.Get("RateLimit") != "" {
			got.limited++
			return true
		}
	case res.Header.Get("Content-Type") != "application/problem+json" || res.Header.Get("Retry-After") != "1" || !strings.HasPrefix(string(body), `{"type":"about:blank"`):
		got.unnamed = append(got.unnamed, res.Status+" "+string(body))
	}
	return false
}

// check fails the test unless n requests, which took a while, were answered as the policy for a limiter that
// is away says.
func (got *tally) check(t testing.TB, policy string, n int, took time.Duration) {
	t.Helper()
	if len(got.unnamed) > 0 {
		t.Errorf("%d answers that the documentation does not name, such as %q", len(got.unnamed), got.unnamed[0])
	}
	ok := false
	switch policy {
	case "open":
		ok = got.statuses[200] == n
	case "closed":
		ok = got.statuses[503] == n
	case "local": // 50 at once and 10 a second in nginx, 100 in ten seconds in HAProxy
		most := 110 + int(10*took.Seconds())
		ok = got.statuses[200] >= 50 && got.statuses[200] <= most && got.statuses[200]+got.statuses[429] == n
	}
	if !ok || got.limited > 0 {
		t.Errorf("%s: the answers to %d requests are %v, %d of them decided", policy, n, got.statuses, got.limited)
	}
}

// While the limiter is stopped or frozen, the policy of the configuration decides, soon. When it is back, it
// decides again.
func TestLimiterAway(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		for _, policy := range p.policies {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				chosen := policy
				if policy == p.policies[0] {
					chosen = "" // as the file is
				}
				s := p.startAsIs(t, fast, chosen)
				for _, how := range []struct {
					name             string
					goAway, comeBack func()
				}{
					{"stopped", s.limiter.stop, func() { s.limiter.start(t) }},
					{"frozen", func() { s.limiter.freeze(t) }, func() { s.limiter.thaw(t) }},
				} {
					s.decidesWithout(t, policy, how.name, how.goAway)
					how.comeBack()
					s.back(t)
				}
			})
		}
	})
}

// decidesWithout has the limiter go away, and checks that the policy decides then.
func (s *setup) decidesWithout(t *testing.T, policy, how string, goAway func()) {
	t.Helper()
	c := s.client(t, newClient())
	s.decides(t, c, 20)
	served := s.served.Load()
	goAway()
	const n, callers = 200, 8 // at the same time: a gateway goes on without the limiter after some failures in a second
	began := time.Now()
	got := &tally{statuses: map[int]int{}}
	tallies := make(chan *tally, callers)
	for range callers {
		go func() { tallies <- s.ask(t, c, n/callers) }()
	}
	for range callers {
		got.add(<-tallies)
	}
	got.bare = s.bare
	got.check(t, policy, n, time.Since(began))
	if passed := s.served.Load() - served; passed != int64(got.statuses[200]) {
		t.Errorf("%s: %d requests were served, of %d that were answered so", how, passed, got.statuses[200])
	}
	if most := 45 * time.Second; got.longest > most { // 300ms, and a minute or so without the bounds of the configuration
		t.Errorf("%s: a request took %v", how, got.longest)
	}
	t.Logf("%s: longest %v, %v", how, got.longest, got.statuses)
}

// back waits until the limiter decides again.
func (s *setup) back(t testing.TB) {
	t.Helper()
	s.decides(t, s.client(t, newClient()), 10)
}

// decides waits until the limiter decides n requests one after the other. On a busy machine it is away at times.
func (s *setup) decides(t testing.TB, c *http.Client, n int) {
	t.Helper()
	wait.For(t, "the limiter is there and decides", func() error {
		if got := s.ask(t, c, n); got.limited != n {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
}

// slow has a limit under which requests wait, for longer than the limiter lets a gateway wait.
const slow = `
policies:
  api:
    limits:
      client: {limit: 1000000000/day, by: ip}
      slow: {limit: 1/minute burst 1 wait 1h, by: ip, when: {paths: [/slow]}}
`

// Denials with 503, which clients can cause, don't make a gateway take the limiter for away.
func TestDenialsWith503(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.start(t, slow, p.policies[len(p.policies)-1]) // open
		var wg sync.WaitGroup
		var denied atomic.Int64
		for range 30 {
			wg.Go(func() {
				if a, err := s.tryFor(t, patience, proxies.Attacker, "GET /slow HTTP/1.1\r\nHost: example.com\r\n\r\n"); err == nil && a.StatusCode == http.StatusServiceUnavailable {
					denied.Add(1)
				}
			})
		}
		wg.Wait()
		if got := s.ask(t, s.client(t, proxies.Bystander), 20); got.limited != 20 {
			t.Errorf("another client: %+v", got)
		}
		if n, served := denied.Load(), s.served.Load()-20; n != 29 || served != 1 {
			t.Errorf("%d denials with 503 and %d served, want 29 and 1", n, served)
		}
	})
}
