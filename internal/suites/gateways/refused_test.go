package gateways

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/suites/proxies"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// What a limiter answers that refuses, is overloaded, or has no such policy, is no yes, even where everybody
// passes while the limiter is away, and does not count as away.
func TestLimiterThatRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.start(t, fast, p.policies[len(p.policies)-1]) // open
		s.limiter.stop()
		var status atomic.Int64
		l := must.Get(net.Listen(s.limiter.network, s.limiter.listenAddr()))(t)
		odd := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" { // a health check
				return
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Location", "https://other.example/")
			w.WriteHeader(int(status.Load()))
			_, _ = fmt.Fprintf(w, `{"type":"about:blank","status":%d}`, status.Load())
		})}
		go func() { _ = odd.Serve(l) }()
		t.Cleanup(func() { _ = odd.Close() })
		status.Store(429)
		c := s.client(t, proxies.Attacker)
		get := func() (int, string) {
			res := must.Get(c.Get("https://example.com/things"))(t)
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			return res.StatusCode, res.Header.Get("Retry-After")
		}
		asked := func() bool {
			code, _ := get()
			return code != http.StatusOK
		}
		wait.Until(t, "the limiter, which was away, is asked", asked)
		served := s.served.Load()
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for _, code := range []int64{301, 400, 401, 403, 404, 429, 431, 500, 501, 503} {
			status.Store(code)
			for range 10 {
				got, retry := get()
				if got < 300 || code == 503 && (got != 503 || retry != "1") {
					t.Errorf("%d became %d, with Retry-After %q", code, got, retry)
				}
			}
		}
		if n := s.served.Load() - served; n > 0 {
			t.Errorf("%d requests were served", n)
		}
	})
}

// Another program that answers 200 in the limiter's place is no yes: a request that it was asked about has not been
// counted. nginx and Traefik can't tell.
func TestAnotherProgramInTheLimitersPlace(t *testing.T) {
	t.Parallel()
	for _, p := range []*program{haproxy, caddy} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := p.start(t, fast, "closed")
			s.limiter.stop()
			l := must.Get(net.Listen(s.limiter.network, s.limiter.listenAddr()))(t)
			asked := new(atomic.Int64)
			other := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/auth/api" {
					asked.Add(1)
				}
				_, _ = io.WriteString(w, "welcome")
			})}
			go func() { _ = other.Serve(l) }()
			t.Cleanup(func() { _ = other.Close() })
			c := s.client(t, proxies.Attacker)
			wait.Until(t, "the other program is asked", func() bool {
				got := s.ask(t, c, 1)
				got.check(t, "closed", 1, 0)
				return asked.Load() >= 10 || t.Failed()
			})
			if n := s.served.Load(); n > 0 {
				t.Errorf("%d requests were served", n)
			}
		})
	}
}
