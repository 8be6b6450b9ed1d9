package gateways

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/suites/proxies"
)

// claims are headers by which a client might speak in the gateway's place.
var claims = []string{
	"X-Forwarded-Uri", "/healthz", "X-Forwarded-Method", "OPTIONS", "X-Forwarded-Host", "other.example",
	"X-Original-Uri", "/healthz", "X-Original-Url", "/healthz", "X-Original-Method", "OPTIONS", "X-Rewrite-Url", "/healthz",
	"X_Forwarded_Uri", "/healthz", "x-forwarded-uri", "/public/x", "X-Forwarded-For", "198.51.100.9", "X_Forwarded_For", "198.51.100.9",
	"Weblimit-Status", "200", "Weblimit-Problem", "{}", "Weblimit-Token", "0123456789abcdef",
}

// A client that makes up 1,000 requests has 100 served: the limit. Another client has its own.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) { forge(t, p.shared(t, "")) })
}

func forge(t *testing.T, s *setup) {
	t.Helper()
	s.attacker = proxies.Attacker
	got := proxies.Attack(t, s.addr, "/things", claims...)
	if served := s.served.Load(); served != 100 || got[http.StatusOK] != 100 {
		t.Errorf("%d requests were served, and the answers were %v, want 100", served, got)
	}
	if got[http.StatusTooManyRequests] < 700 {
		t.Errorf("too few requests reached the limit: %v", got)
	}
	for status := range got {
		if status >= 500 && status != http.StatusNotImplemented {
			t.Errorf("%d requests got %d", got[status], status)
		}
	}
	a := s.get(t, s.bystander, "/things")
	if a.StatusCode != http.StatusOK || !strings.HasPrefix(a.Header.Get("RateLimit"), `"client";r=99;`) {
		t.Errorf("another client got %s %v", a.Status, a.Header)
	}
	denied(t, s.get(t, s.attacker, "/things"))
	s.refusedNone(t)
}

// denied fails the test unless an answer is a denial as docs/use/headers.md says.
func denied(t *testing.T, a *answer) {
	t.Helper()
	h := a.Header
	for name, want := range map[string]string{
		"Content-Type": "application/problem+json", "RateLimit-Policy": `"client";q=100;w=86400`, "Cache-Control": "no-store",
	} {
		if values := h.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("%s is %q, want %q", name, values, want)
		}
	}
	if retry := h.Values("Retry-After"); len(retry) != 1 || retry[0] == "" || !strings.HasPrefix(h.Get("RateLimit"), `"client";r=0;t=`) || len(h.Values("RateLimit")) != 1 {
		t.Errorf("Retry-After is %q and RateLimit %q", retry, h.Values("RateLimit"))
	}
	var problem struct {
		Title  string
		Status int
		Limits []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(a.body), &problem); err != nil || problem.Status != 429 || len(problem.Limits) != 1 || problem.Limits[0] != "client" {
		t.Errorf("the body is %q (%v)", a.body, err)
	}
	if a.StatusCode != http.StatusTooManyRequests || h.Get("Weblimit-Problem") != "" {
		t.Errorf("got %s %v", a.Status, h)
	}
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body string
}

// get sends GET for a path from an address.
func (s *setup) get(t testing.TB, from, path string) *answer {
	t.Helper()
	return s.send(t, from, "GET "+path+" HTTP/1.1\r\nHost: example.com\r\n\r\n")
}

// send sends a request, written out, on a connection of its own.
func (s *setup) send(t testing.TB, from, request string) *answer {
	t.Helper()
	a, err := s.tryFor(t, patience, from, request)
	if err != nil {
		t.Fatalf("%.80q: %v", request, err)
	}
	return a
}

// try is send for a request that may get no answer.
func (s *setup) try(t testing.TB, from, request string) (*answer, error) {
	t.Helper()
	return s.tryFor(t, 10*time.Second, from, request)
}

func (s *setup) tryFor(t testing.TB, within time.Duration, from, request string) (*answer, error) {
	t.Helper()
	d := &tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience},
		Config:    &tls.Config{InsecureSkipVerify: true, ServerName: "example.com", NextProtos: []string{"http/1.1"}, ClientSessionCache: sessions, CurvePreferences: cheapest}, //nolint:gosec // made up a moment ago
	}
	conn, err := d.DialContext(t.Context(), "tcp", s.addr)
	if err != nil {
		t.Error(err) // and not Fatal: this may be a goroutine of the test
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(within))
	go func() { _, _ = io.WriteString(conn, request) }() // the answer may come before all of it is sent
	method, _, _ := strings.Cut(request, " ")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	for err == nil && res.StatusCode == http.StatusContinue {
		_ = res.Body.Close()
		res, err = http.ReadResponse(r, &http.Request{Method: method})
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return &answer{res, string(body)}, err
}

// sessions are resumed, which saves most connections a signature. The rest of what a handshake costs is its keys: those of
// X25519 cost the least, and P-256 is for the certificate.
var (
	sessions = tls.NewLRUClientSessionCache(0)
	cheapest = []tls.CurveID{tls.X25519, tls.CurveP256}
)
