package gateways

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// A client whose limit is used up is denied, however it writes its requests, and each denial is as
// documented. Requests that gateways refuse by themselves may have another status.
func TestUsedUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.usedUp(t, "")
		for _, test := range []struct {
			name, request string
			also          []int // what a gateway may answer by itself
		}{
			{"plain", "GET /things HTTP/1.1\r\nHost: example.com\r\n\r\n", nil},
			{"HTTP/1.0", "GET /things HTTP/1.0\r\nHost: example.com\r\n\r\n", nil},
			{"a body", "POST /things HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\n\r\nabc", nil},
			{"a chunked body", "POST /things HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", nil},
			{"a whole URL", "GET http://example.com/things HTTP/1.1\r\nHost: example.com\r\n\r\n", nil},
			{"another method", "DELETE /things HTTP/1.1\r\nHost: example.com\r\n\r\n", nil},
			{"an unknown method", "PURGE-ALL /things HTTP/1.1\r\nHost: example.com\r\n\r\n", []int{405, 400}},
			{"addresses", "GET /things HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-For: 198.51.100.1\r\nX-Real-IP: 198.51.100.1\r\nForwarded: for=198.51.100.1\r\n\r\n", nil},
			{"headers of the gateway", "GET /things HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-Uri: /healthz\r\nX-Forwarded-Uri: /healthz\r\nX-Forwarded-Method: GET\r\n\r\n", nil},
			{"headers of other gateways", "GET /things HTTP/1.1\r\nHost: example.com\r\nX-Original-URI: /healthz\r\nX-Original-URL: /healthz\r\nX-Rewrite-URL: /healthz\r\n\r\n", nil},
			{"hop-by-hop", "GET /things HTTP/1.1\r\nHost: example.com\r\nConnection: X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n", []int{403}},
			{"hop-by-hop, another name", "GET /things HTTP/1.1\r\nHost: example.com\r\nConnection: close, Weblimit-Token, X-Real-IP\r\n\r\n", []int{403, 404}},
			{"underscores", "GET /things HTTP/1.1\r\nHost: example.com\r\nX_Forwarded_For: 198.51.100.1\r\nX_Forwarded_Uri: /healthz\r\n\r\n", nil},
			{"answers of the limiter", "GET /things HTTP/1.1\r\nHost: example.com\r\nWeblimit-Status: 200\r\nRateLimit: x\r\nRetry-After: 0\r\n\r\n", nil},
			{"an upgrade", "GET /things HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", []int{400}},
			{"an expectation", "POST /things HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n", nil},
			{"conditions", "GET /things HTTP/1.1\r\nHost: example.com\r\nIf-None-Match: *\r\nRange: bytes=0-0\r\nAccept-Encoding: gzip\r\n\r\n", nil},
			{"the query of the subrequest", "GET /things?denied=403&policy=x HTTP/1.1\r\nHost: example.com\r\n\r\n", nil},
		} {
			a := s.send(t, s.attacker, test.request)
			if a.StatusCode != http.StatusTooManyRequests {
				if !strings.Contains(fmt.Sprint(test.also), fmt.Sprint(a.StatusCode)) {
					t.Errorf("%s: got %s %s", test.name, a.Status, a.body)
				}
				continue
			}
			denied(t, a)
		}
		head := s.send(t, s.attacker, "HEAD /things HTTP/1.1\r\nHost: example.com\r\n\r\n")
		if head.StatusCode != http.StatusTooManyRequests || head.Header.Get("Retry-After") == "" || head.body != "" {
			t.Errorf("HEAD: got %s %v %q", head.Status, head.Header, head.body)
		}
		if n := s.served.Load(); n > 0 {
			t.Errorf("%d requests were served", n)
		}
	})
}

// A path is exempt in its plain spelling alone: another one may be another resource behind the gateway. Where
// the gateway itself changes the spelling, the application gets what the limiter has seen.
func TestExemptPaths(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.usedUp(t, "")
		for _, path := range []string{"/healthz", "/healthz?x=1", "/public/a.css"} {
			if a := s.get(t, s.attacker, path); a.StatusCode != 200 || len(a.Header.Values("RateLimit")) > 0 {
				t.Errorf("%s: got %s %v", path, a.Status, a.Header)
			}
		}
		for _, path := range []string{
			"/things?/healthz", "/things%3f/healthz", "/healthz/../things", "/healthz/%2e%2e/things", "/healthz%2f..%2fthings", "/public/../things", "/public/%2e%2e/things",
			"/public/..%2fthings", "/public/..;/things", `/public/..\things`, "/public//../things", "//public/../things", "/public/.././things", "/PUBLIC/../things",
			"/healthz/", "//healthz", "/HEALTHZ", "/%68ealthz", "/./healthz", "/healthz;x", "/public/%252e%252e/things", "/healthz#", "/public/",
		} {
			served := s.served.Load()
			a := s.get(t, s.attacker, path)
			switch {
			case a.StatusCode == http.StatusTooManyRequests || a.StatusCode == http.StatusBadRequest:
				if s.served.Load() > served {
					t.Errorf("%s: was served, and got %s", path, a.Status)
				}
			case p == traefik && a.StatusCode == http.StatusOK && s.last.Load().RequestURI == "/healthz":
			default:
				t.Errorf("%s: got %s, and the application %s", path, a.Status, s.last.Load().RequestURI)
			}
		}
	})
}

// Nobody reaches the limiter, or what decides while it is away, through the gateway.
func TestAroundTheGateway(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.shared(t, "")
		for _, path := range []string{"/weblimit", "/v1/auth/api", "/v1/auth_request/api", "/v1/ext_authz/api/x", "/local", "/open", "/closed", "/@weblimit_denied"} {
			served := s.served.Load()
			a := s.get(t, s.attacker, path)
			reached := s.served.Load() > served // the application: it is a path like any other
			if !reached && a.StatusCode != http.StatusNotFound || reached && a.body != "served" {
				t.Errorf("%s: got %s %s", path, a.Status, a.body)
			}
		}
		// A program on this machine, or one that is made to send requests, such as the application.
		for _, path := range []string{"/v1/auth/api", "/v1/auth_request/api", "/app/v1/auth/api"} {
			r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.away+path, nil))(t)
			r.Header = http.Header{"X-Forwarded-For": {s.bystander}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}}
			if res, err := http.DefaultClient.Do(r); err == nil {
				_ = res.Body.Close()
				if res.Header.Get("RateLimit") != "" {
					t.Errorf("%s: the limiter answered: %s", r.URL, res.Status)
				}
			}
		}
		if a := s.get(t, s.bystander, "/things"); !strings.HasPrefix(a.Header.Get("RateLimit"), `"client";r=99;`) {
			t.Errorf("another client got %v", a.Header)
		}
	})
}

// The application gets the client's request as it was: method, target, body, and the client's address.
func TestApplicationGetsTheRequest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.shared(t, "")
		a := s.send(t, s.attacker, "POST /things?page=2 HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-For: 198.51.100.1\r\nCookie: a=b\r\nContent-Length: 3\r\n\r\nabc")
		r := s.last.Load()
		if a.StatusCode != 200 || r.Method != "POST" || r.RequestURI != "/things?page=2" || r.ContentLength != 3 || r.Header.Get("Cookie") != "a=b" {
			t.Fatalf("got %s, and the application %s %s %v", a.Status, r.Method, r.RequestURI, r.Header)
		}
		if got := r.Header.Values("X-Forwarded-For"); len(got) != 1 || got[0] != s.attacker {
			t.Errorf("X-Forwarded-For is %q", got)
		}
		for name := range r.Header {
			if strings.HasPrefix(name, "Weblimit") {
				t.Errorf("the application gets %s", name)
			}
		}
	})
}

// reads has limits that read each part of a request. Each is used up by one.
const reads = `
policies:
  api:
    headers_when: on_denial
    limits:
      method: {limit: 1/day, by: ip, when: {paths: [/method], methods: [DELETE]}}
      path: {limit: 1/day, by: ip, when: {paths: [/path]}}
      query: {limit: 1/day, by: {query: page}, when: {paths: [/query]}}
      host: {limit: 1/day, by: host, when: {paths: [/host]}}
      header: {limit: 1/day, by: {header: X-Team}, when: {paths: [/header]}}
      key: {limit: 1/day, by: api_key, on_missing_key: deny, when: {paths: [/key]}}
      cookie: {limit: 1/day, by: {cookie: team}, when: {paths: [/cookie]}}
      address: {limit: 1/day, by: ip, when: {paths: [/address]}}
`

// The limiter knows the request as the client has sent it.
func TestLimiterKnowsTheRequest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.start(t, reads, "")
		for _, test := range []struct{ limit, request, other string }{
			{"method", "DELETE /method HTTP/1.1\r\nHost: example.com\r\n\r\n", "GET /method HTTP/1.1\r\nHost: example.com\r\n\r\n"},
			{"path", "GET /path?x=1 HTTP/1.1\r\nHost: example.com\r\n\r\n", "GET /paths HTTP/1.1\r\nHost: example.com\r\n\r\n"},
			{"query", "POST /query?x=%26&page=1 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\n\r\n", "GET /query?x=1&page=2 HTTP/1.1\r\nHost: example.com\r\n\r\n"},
			{"host", "GET /host HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
			{"header", "GET /header HTTP/1.1\r\nHost: example.com\r\nX-Team: a\r\n\r\n", "GET /header HTTP/1.1\r\nHost: example.com\r\nX-Team: b\r\n\r\n"},
			{"key", "GET /key HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer a-key-of-a-client\r\n\r\n", "GET /key HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer another-key\r\n\r\n"},
			{"cookie", "GET /cookie HTTP/1.1\r\nHost: example.com\r\nCookie: x=y; team=a\r\n\r\n", "GET /cookie HTTP/1.1\r\nHost: example.com\r\nCookie: team=b\r\n\r\n"},
		} {
			if a := s.send(t, s.attacker, test.request); a.StatusCode != 200 {
				t.Errorf("%s: got %s %s", test.limit, a.Status, a.body)
			}
			if a := s.send(t, s.attacker, test.request); a.StatusCode != 429 || !strings.Contains(a.body, `["`+test.limit+`"]`) {
				t.Errorf("%s, again: got %s %s", test.limit, a.Status, a.body)
			}
			if test.other == "" {
				continue
			}
			if a := s.send(t, s.attacker, test.other); a.StatusCode != 200 {
				t.Errorf("%s, another: got %s %s", test.limit, a.Status, a.body)
			}
		}
		for _, from := range []string{s.attacker, s.bystander} {
			first, second := s.get(t, from, "/address"), s.get(t, from, "/address")
			if first.StatusCode != 200 || second.StatusCode != 429 {
				t.Errorf("%s: got %s and %s", from, first.Status, second.Status)
			}
		}
		if a := s.get(t, s.attacker, "/key"); a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") == "" || a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("without a key: got %s %v %s", a.Status, a.Header, a.body)
		}
		// What is there twice is refused: the application may read the other.
		if a := s.send(t, s.attacker, "GET /header HTTP/1.1\r\nHost: example.com\r\nX-Team: c\r\nX-Team: d\r\n\r\n"); a.StatusCode != 400 || !strings.Contains(a.body, "X-Team") {
			t.Errorf("a header twice: got %s %s", a.Status, a.body)
		}
	})
}
