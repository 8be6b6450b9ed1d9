package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/gateway"
)

// inCode are policies in code.
type inCode map[string][]core.Limit

func (p inCode) Limiter(config core.Config, name string) (*core.Limiter, error) {
	config.Limits = p[name] // none is an error of core.New
	return core.New(config)
}

// asked is a Gateway under test and its log.
type asked struct {
	*gateway.Gateway
	log *bytes.Buffer
}

func newGateway(t *testing.T, policies inCode, change ...func(*gateway.Config)) asked {
	t.Helper()
	log := new(bytes.Buffer)
	store := core.NewMemory()
	now := time.Now().UnixMicro()
	testclock.Set(store, func() int64 { return now }) // no second ends between two requests
	config := gateway.Config{Policies: policies, Limiter: core.Config{
		Store: store, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}}
	for _, c := range change {
		c(&config)
	}
	return asked{must.Get(gateway.New(config))(t), log}
}

// subrequest returns what a gateway sends for GET /things?page=2 of 192.0.2.7, with further lines of
// headers: name, value, name, value… A name with a minus in front is left out.
func subrequest(path string, lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:4000", "weblimit"
	r.Host = "limiter"
	r.Header.Set("X-Forwarded-For", "192.0.2.7")
	r.Header.Set("X-Forwarded-Method", "GET")
	r.Header.Set("X-Forwarded-Uri", "/things?page=2")
	r.Header.Set("X-Forwarded-Host", "shop.example")
	for i := 0; i < len(lines); i += 2 {
		if name, out := strings.CutPrefix(lines[i], "-"); out {
			r.Header.Del(name)
		} else {
			r.Header.Add(lines[i], lines[i+1])
		}
	}
	return r
}

// with replaces headers.
func with(r *http.Request, lines ...string) *http.Request {
	for i := 0; i < len(lines); i += 2 {
		r.Header.Set(lines[i], lines[i+1])
	}
	return r
}

func (a asked) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// wants sends a subrequest, which has to be answered with a status.
func (a asked) wants(t *testing.T, status int, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := a.do(r)
	if w.Code != status {
		t.Errorf("%s: got %d %v %s, want %d\n%s", r.URL, w.Code, w.Header(), w.Body, status, a.log)
	}
	return w
}

// passed counts how many of n requests pass.
func (a asked) passed(n int, next func(i int) *http.Request) (passed int) {
	for i := range n {
		if a.do(next(i)).Code == http.StatusOK {
			passed++
		}
	}
	return passed
}

func perClient(n int64) inCode {
	return inCode{"api": {core.PerHour(n).By(keyfuncs.ClientIP()).Named("client")}}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, path string
		status     int
		body       bool
	}{
		{"forward auth", "/v1/auth/api", http.StatusTooManyRequests, true},
		{"auth_request of nginx", "/v1/auth_request/api", http.StatusForbidden, false},
		{"ext_authz of Envoy", "/v1/ext_authz/api/things?page=2", http.StatusTooManyRequests, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, perClient(1))
			allowed := g.wants(t, http.StatusOK, subrequest(test.path))
			if allowed.Body.Len() > 0 || allowed.Header().Get("RateLimit") != `"client";r=0;t=3600` {
				t.Errorf("allowed: got %d %v %s", allowed.Code, allowed.Header(), allowed.Body)
			}
			denied := g.wants(t, test.status, subrequest(test.path))
			h := denied.Header()
			if h.Get("Retry-After") != "3600" || h.Get("RateLimit-Policy") != `"client";q=1;w=3600` || h.Get("Cache-Control") != "no-store" {
				t.Errorf("denied: got %d %v", denied.Code, h)
			}
			problem := denied.Body.Bytes()
			if !test.body {
				if len(problem) > 0 || h.Get(gateway.StatusHeader) != "429" {
					t.Errorf("denied: got %v and the body %s", h, problem)
				}
				problem = []byte(h.Get(gateway.ProblemHeader))
			}
			var is struct {
				Status   int
				Violated []string `json:"violated-policies"`
			}
			if err := json.Unmarshal(problem, &is); err != nil || is.Status != 429 || len(is.Violated) != 1 || is.Violated[0] != "client" {
				t.Errorf("the problem is %s (%v)", problem, err)
			}
			g.wants(t, http.StatusOK, with(subrequest(test.path), "X-Forwarded-For", "192.0.2.8")) // another client
		})
	}
}

// A policy reads the original request, and not the subrequest.
func TestOriginalRequest(t *testing.T) {
	t.Parallel()
	var got keyfuncs.Request
	look := func(r keyfuncs.Request) (string, bool) {
		header := func(name string) string { value, _ := r.Header(name, 0); return value }
		cookie, _ := r.Cookie("session", 0)
		page, _ := r.Query("page", 0)
		_, known := r.Route()
		if known || r.Value("none") != nil {
			t.Error("the route is known, or a value is there")
		}
		got = r
		return strings.Join([]string{r.Method(), r.Path(), page, header("Host"), header("X-Api-Key"), cookie, r.Peer().String(), header("X-Forwarded-For"), header("X-Real-Ip")}, " "), true
	}
	for _, test := range []struct {
		name    string
		request *http.Request
		want    string
	}{
		{"forward auth", with(subrequest("/v1/auth/api?page=9", "Cookie", "session=s", "X-Api-Key", "k"), "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/%6cogin//x?page=2&page=3"), "POST /%6cogin//x 2 shop.example k s 192.0.2.7 192.0.2.7 192.0.2.7"},
		{"a whole URL", with(subrequest("/v1/auth/api"), "X-Forwarded-Uri", "HTTP://evil.example/login?page=2"), "GET /login 2 shop.example   192.0.2.7 192.0.2.7 192.0.2.7"},
		{"a URL without a path", with(subrequest("/v1/auth/api"), "X-Forwarded-Uri", "http://evil.example?page=2"), "GET / 2 shop.example   192.0.2.7 192.0.2.7 192.0.2.7"},
		{"the server itself", with(subrequest("/v1/auth/api"), "X-Forwarded-Uri", "*", "X-Forwarded-Method", "OPTIONS"), "OPTIONS *  shop.example   192.0.2.7 192.0.2.7 192.0.2.7"},
		{"ext_authz", subrequest("/v1/ext_authz/api//%6cogin/../x?page=2", "X-Api-Key", "k"), "GET //%6cogin/../x 2 limiter k  192.0.2.7 192.0.2.7 192.0.2.7"},
		{"IPv6, mapped IPv4 and a port", with(subrequest("/v1/auth/api"), "X-Forwarded-For", "[::ffff:192.0.2.9]:443"), "GET /things 2 shop.example   192.0.2.9 192.0.2.9 192.0.2.9"},
		{"a zone", with(subrequest("/v1/auth/api"), "X-Forwarded-For", "fe80::1%eth0"), "GET /things 2 shop.example   fe80::1 fe80::1 fe80::1"},
		{"what the client writes", subrequest("/v1/auth/api", "X-Real-Ip", "198.51.100.1", "X_Forwarded_For", "198.51.100.1"), "GET /things 2 shop.example   192.0.2.7 192.0.2.7 192.0.2.7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var is string
			g := newGateway(t, inCode{"api": {core.PerHour(1).By(keyfuncs.Custom("test", func(r keyfuncs.Request) string {
				key, _ := look(r)
				is = key
				return key
			}))}})
			g.wants(t, http.StatusOK, test.request)
			check.Equal(t, "what the policy reads", is, test.want)
			for _, name := range []string{"X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Host", "Weblimit-Token", "Forwarded", "Cf-Connecting-Ip", "True-Client-Ip"} {
				if _, there := got.Header(name, 0); there {
					t.Errorf("the policy sees %s", name)
				}
			}
		})
	}
}

// A policy that believes proxies finds the client, whatever the client writes and wherever it is.
func TestPolicyThatBelievesProxies(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]keyfuncs.Strategy{
		"trusted proxies": keyfuncs.TrustedProxies("10.0.0.0/8"),
		"forwarded":       keyfuncs.Forwarded("10.0.0.0/8"),
		"hops":            keyfuncs.HopCount(1),
		"x_real_ip":       keyfuncs.XRealIP("10.0.0.0/8"),
		"cloudflare":      keyfuncs.Cloudflare("10.0.0.0/8"),
		"single header":   keyfuncs.SingleHeader("True-Client-IP", "10.0.0.0/8"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, inCode{"api": {core.PerHour(3).By(keyfuncs.ClientIP(strategy))}})
			for _, client := range []string{"192.0.2.7", "10.0.0.9"} {
				passed := g.passed(10, func(i int) *http.Request {
					claimed := "198.51.100." + string(rune('0'+i))
					return with(subrequest("/v1/auth/api"), "X-Forwarded-For", client, "X-Real-Ip", claimed, "Forwarded", "for="+claimed,
						"Cf-Connecting-Ip", claimed, "True-Client-Ip", claimed)
				})
				check.Equal(t, client+": requests passed", passed, 3)
			}
		})
	}
}

// A subrequest that is not as a configured gateway sends it is refused, and the log names the header.
func TestMisconfiguredGateways(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		request *http.Request
		status  int
		log     string
	}{
		{"no client", subrequest("/v1/auth/api", "-X-Forwarded-For", ""), 500, "header=X-Forwarded-For"},
		{"no client, ext_authz", subrequest("/v1/ext_authz/api/x", "-X-Forwarded-For", ""), 500, "header=X-Forwarded-For"},
		{"two lines of clients", subrequest("/v1/auth/api", "X-Forwarded-For", "192.0.2.8"), 500, "several lines"},
		{"two clients in a line", with(subrequest("/v1/auth/api"), "X-Forwarded-For", "198.51.100.1, 192.0.2.7"), 500, "several addresses"},
		{"no address", with(subrequest("/v1/auth/api"), "X-Forwarded-For", "unix:"), 500, "does not have the address"},
		{"an empty address", with(subrequest("/v1/auth/api"), "X-Forwarded-For", ""), 500, "does not have the address"},
		{"no method", subrequest("/v1/auth/api", "-X-Forwarded-Method", ""), 500, "header=X-Forwarded-Method"},
		{"two methods", subrequest("/v1/auth/api", "X-Forwarded-Method", "PUT"), 500, "several lines"},
		{"an odd method", with(subrequest("/v1/auth/api"), "X-Forwarded-Method", "GET /"), 500, "has no method"},
		{"no target", subrequest("/v1/auth/api", "-X-Forwarded-Uri", ""), 500, "header=X-Forwarded-Uri"},
		{"an empty target", with(subrequest("/v1/auth/api"), "X-Forwarded-Uri", ""), 500, "lacks a header"},
		{"two targets", subrequest("/v1/auth/api", "X-Forwarded-Uri", "/"), 500, "several lines"},
		{"two hosts", subrequest("/v1/auth/api", "X-Forwarded-Host", "a.example"), 500, "header=X-Forwarded-Host"},
		{"another policy", subrequest("/v1/auth/apis"), 500, "policy=apis"},
		{"another path", subrequest("/v1/auth/api/"), 404, ""},
		{"another path, nginx", subrequest("/v1/auth_request/api/things"), 404, ""},
		{"no policy", subrequest("/v1/auth/"), 404, ""},
		{"no path, ext_authz", subrequest("/v1/ext_authz/api"), 404, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, perClient(10))
			if w := g.wants(t, test.status, test.request); strings.Contains(w.Body.String(), "X-") {
				t.Errorf("the body names a header: %s", w.Body)
			}
			check.Contains(t, "the log", g.log.String(), test.log)
			g.do(test.request)
			if n := strings.Count(g.log.String(), "refused"); n > 1 {
				t.Errorf("%d lines in the log, want one a minute", n)
			}
		})
	}
}

const (
	secret = "0123456789abcdef"
	second = "fedcba9876543210"
)

func TestStrangers(t *testing.T) {
	t.Parallel()
	tokens := func(c *gateway.Config) { c.Tokens = []string{secret, second} }
	trusted := func(c *gateway.Config) { c.Trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }
	from := func(addr string, r *http.Request) *http.Request { r.RemoteAddr = addr; return r }
	for _, test := range []struct {
		name    string
		config  func(*gateway.Config)
		request *http.Request
		status  int
	}{
		{"this machine", func(*gateway.Config) {}, subrequest("/v1/auth/api"), 200},
		{"this machine, IPv6", func(*gateway.Config) {}, from("[::1]:1", subrequest("/v1/auth/api")), 200},
		{"this machine, mapped", func(*gateway.Config) {}, from("[::ffff:127.0.0.1]:1", subrequest("/v1/auth/api")), 200},
		{"another machine", func(*gateway.Config) {}, from("10.0.0.1:1", subrequest("/v1/auth/api")), 403},
		{"no address", func(*gateway.Config) {}, from("@", subrequest("/v1/auth/api")), 403},
		{"a trusted machine", trusted, from("10.0.0.1:1", subrequest("/v1/auth/api")), 200},
		{"this machine, which is not trusted", trusted, subrequest("/v1/auth/api"), 403},
		{"a token", tokens, subrequest("/v1/auth/api", "Weblimit-Token", secret), 200},
		{"another token", tokens, subrequest("/v1/auth/api", "Weblimit-Token", second), 200},
		{"no token", tokens, subrequest("/v1/auth/api"), 403},
		{"a wrong token", tokens, subrequest("/v1/auth/api", "Weblimit-Token", secret+"0"), 403},
		{"two tokens", tokens, subrequest("/v1/auth/api", "Weblimit-Token", secret, "Weblimit-Token", second), 403},
		{"a token from another machine", tokens, from("10.0.0.1:1", subrequest("/v1/auth/api", "Weblimit-Token", secret)), 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, perClient(10), test.config)
			g.wants(t, test.status, test.request)
			if strings.Contains(g.log.String(), secret) {
				t.Error("the token is in the log")
			}
		})
	}
}

// Over a unix socket whoever may connect is a gateway, and nobody can claim one by a header.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("unix", t.TempDir()+"/s"))(t)
	server := &http.Server{Handler: newGateway(t, perClient(10)), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
	}}}
	defer client.CloseIdleConnections()
	r := subrequest("/v1/auth/api")
	r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", "limiter"
	resp := must.Get(client.Do(r))(t)
	_ = resp.Body.Close()
	check.Equal(t, "status", resp.StatusCode, http.StatusOK)
}

// Behind a gateway that appends to X-Forwarded-For, the proxies in front of it are skipped.
func TestProxiesInFront(t *testing.T) {
	t.Parallel()
	behind := func(c *gateway.Config) { c.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }
	g := newGateway(t, perClient(3), behind)
	for _, test := range []struct {
		lines []string
		want  int
	}{
		{[]string{"198.51.100.I, 192.0.2.7, 10.0.0.2"}, 3},
		{[]string{"198.51.100.I", "192.0.2.7, 10.0.0.3"}, 0}, // the same client
		{[]string{"198.51.100.I, 192.0.2.8"}, 3},
		{[]string{"198.51.100.I, unknown, 10.0.0.2"}, 0},
	} {
		passed := g.passed(6, func(i int) *http.Request {
			r := subrequest("/v1/auth/api")
			r.Header["X-Forwarded-For"] = nil
			for _, line := range test.lines {
				r.Header.Add("X-Forwarded-For", strings.ReplaceAll(line, "I", string(rune('0'+i))))
			}
			return r
		})
		check.Equal(t, fmt.Sprintf("%q: requests passed", test.lines), passed, test.want)
	}
}

// Whatever spelling of a path a client chooses, a limit on it applies and an exemption does not.
func TestSpellingsOfPaths(t *testing.T) {
	t.Parallel()
	spellings := []string{"/login", "//login", "/login/", "/login/.", "/x/../login", "/./login", "/%6cogin", "/%256cogin", "/LOGIN", "/login;x=1", "/;x/login", `/x\..\login`, "/login%2f", "/login%00", "http://evil.example/login", "/login#x", "/login?x", "/login%3fx"}
	limit := core.PerHour(3).By(keyfuncs.ClientIP()).When(keyfuncs.Paths("/login")).Named("login")
	g := newGateway(t, inCode{"api": {limit}})
	spelled := func(i int) *http.Request {
		return with(subrequest("/v1/auth/api"), "X-Forwarded-Uri", spellings[i])
	}
	check.Equal(t, "spellings of /login passed", g.passed(len(spellings), spelled), 3)
	for _, way := range []string{"/v1/auth/api", "/v1/ext_authz/api"} {
		g := newGateway(t, perClient(3), func(c *gateway.Config) {
			c.Limiter.Bypass = []keyfuncs.Condition{keyfuncs.Paths("/healthz", "/public/*")}
		})
		around := []string{"/healthz/../login", "/public/../login", "/public/%2e%2e/login", "/public//../login", `/public/..\login`, "/public/..;/login", "/healthz%2f..%2flogin", "//healthz", "/healthz;/../login", "/x?/healthz"}
		passed := g.passed(len(around), func(i int) *http.Request {
			if way == "/v1/auth/api" {
				return with(subrequest(way), "X-Forwarded-Uri", around[i])
			}
			r := subrequest("/")
			r.URL.Path, r.URL.RawPath = way+around[i], way+around[i]
			return r
		})
		check.Equal(t, way+": requests around the exemption passed", passed, 3)
		exempt := g.wants(t, 200, with(subrequest("/v1/auth/api"), "X-Forwarded-Uri", "/public/a.css"))
		check.Equal(t, "RateLimit of an exempt request", exempt.Header().Get("RateLimit"), "")
	}
}

// A limit on concurrent requests would never deny, since a gateway tells no end. That is refused.
func TestConcurrentLimit(t *testing.T) {
	t.Parallel()
	g := newGateway(t, inCode{"api": {core.Concurrent(1).By(keyfuncs.ClientIP()).Named("running")}})
	if g.wants(t, http.StatusInternalServerError, subrequest("/v1/auth/api")); !strings.Contains(g.log.String(), "limit=running") {
		t.Errorf("the log is %s", g.log)
	}
}

// A request that would wait for its turn for longer than gateways wait is denied in time.
func TestWaitingLimit(t *testing.T) {
	t.Parallel()
	g := newGateway(t, inCode{"api": {core.PerMinute(1).LeakyBucket(time.Hour).By(keyfuncs.ClientIP())}}, func(c *gateway.Config) { c.Timeout = 20 * time.Millisecond })
	g.do(subrequest("/v1/auth/api"))
	began := time.Now()
	if g.wants(t, http.StatusServiceUnavailable, subrequest("/v1/auth/api")); time.Since(began) > 30*time.Second {
		t.Errorf("answered after %v", time.Since(began))
	}
}

// What depends on the end of a request stays as it was charged.
func TestNothingIsGivenBack(t *testing.T) {
	t.Parallel()
	g := newGateway(t, inCode{"api": {
		core.PerHour(3).By(keyfuncs.ClientIP()).RefundOn(core.ServerErrors).Named("failures"),
		core.PerHour(30).By(keyfuncs.ClientIP()).Estimate(5).Named("estimate"),
	}})
	check.Equal(t, "requests passed", g.passed(5, func(int) *http.Request { return subrequest("/v1/auth/api") }), 3)
}

func TestWrongConfigurations(t *testing.T) {
	t.Parallel()
	store := core.Config{Store: core.NewMemory()}
	for _, test := range []struct {
		name   string
		config gateway.Config
		want   string
	}{
		{"no policies", gateway.Config{Limiter: store}, "Policies is missing"},
		{"no store", gateway.Config{Policies: inCode{}}, "Store is missing"},
		{"limits", gateway.Config{Policies: inCode{}, Limiter: core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(1)}}}, "must be empty"},
		{"a policy that is not there", gateway.Config{Policies: inCode{}, Limiter: store, Names: []string{"api"}}, "Limits is empty"},
		{"a short token", gateway.Config{Policies: inCode{}, Limiter: store, Tokens: []string{"short"}}, "Config.Tokens"},
		{"no time", gateway.Config{Policies: inCode{}, Limiter: store, Timeout: time.Microsecond}, "from 1ms to 5m0s"},
		{"no network", gateway.Config{Policies: inCode{}, Limiter: store, Trusted: make([]netip.Prefix, 1)}, "Config.Trusted"},
		{"no network of proxies", gateway.Config{Policies: inCode{}, Limiter: store, Proxies: make([]netip.Prefix, 1)}, "Config.Proxies"},
		{"everybody a proxy", gateway.Config{Policies: inCode{}, Limiter: store, Proxies: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, "Config.Proxies"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := gateway.New(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func BenchmarkGateway(b *testing.B) {
	g, err := gateway.New(gateway.Config{Policies: perClient(1 << 40), Limiter: core.Config{Store: core.NewMemory()}})
	if err != nil {
		b.Fatal(err)
	}
	r, w := subrequest("/v1/auth/api"), discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		g.ServeHTTP(w, r)
	}
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             { clear(d.header) }

// A policy that is asked for by many at once is made once, and errors are not kept.
func TestPoliciesAreMadeOnce(t *testing.T) {
	t.Parallel()
	policies := perClient(50)
	g := newGateway(t, policies)
	var wg sync.WaitGroup
	var passed atomic.Int64
	for range 100 {
		wg.Go(func() {
			if g.do(subrequest("/v1/auth/api")).Code == http.StatusOK {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	check.Equal(t, "requests passed", passed.Load(), 50)
	g.wants(t, http.StatusInternalServerError, subrequest("/v1/auth/later"))
	policies["later"] = []core.Limit{core.PerHour(1).By(keyfuncs.ClientIP()).Named("later")}
	g.wants(t, http.StatusOK, subrequest("/v1/auth/later"))
}

// Advice names paths where a policy has conditions on routes, and says nothing of odd spellings.
func TestAdviceOnRoutes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		exempt keyfuncs.Condition
		path   string
		want   bool
	}{
		{"a condition on routes", keyfuncs.Routes("GET /healthz"), "/healthz", true},
		{"a condition on paths", keyfuncs.Paths("/healthz"), "/%68ealthz", false},
		{"a condition on paths, capitals", keyfuncs.Paths("/healthz"), "/HEALTHZ", false},
		{"a condition on paths, two slashes", keyfuncs.Paths("/healthz"), "//healthz", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, perClient(10), func(c *gateway.Config) { c.Limiter.Bypass = []keyfuncs.Condition{test.exempt} })
			g.do(with(subrequest("/v1/auth/api"), "X-Forwarded-Uri", test.path))
			if got := strings.Contains(g.log.String(), "use paths in the policy"); got != test.want || strings.Contains(g.log.String(), "WL008") != test.want {
				t.Errorf("the log is %q", g.log)
			}
		})
	}
}

// A text of the operator's can't break the headers by which nginx gets the body.
func TestTextsOfDenials(t *testing.T) {
	t.Parallel()
	const text = "zu viel \u00fc\r\nSet-Cookie: a=b \x00\x7f\u2028 $host"
	g := newGateway(t, perClient(1), func(c *gateway.Config) {
		c.Limiter.Details = map[string]func(core.Decision) string{"de": func(core.Decision) string { return text }}
	})
	g.do(subrequest("/v1/auth_request/api"))
	h := g.do(subrequest("/v1/auth_request/api", "Accept-Language", "de")).Header()
	var is struct{ Detail string }
	problem := h.Get(gateway.ProblemHeader)
	if err := json.Unmarshal([]byte(problem), &is); err != nil || is.Detail != text || h.Get("Content-Language") != "de" {
		t.Errorf("got %v and the detail %q, want %q (%v)", h, is.Detail, text, err)
	}
	if strings.ContainsAny(problem, "\r\n\x00\x7f") {
		t.Errorf("the header has control characters: %q", problem)
	}
}

// Whatever a subrequest says, it is decided or refused, and a client whose limit is used up passes by a
// path that is exempt in its plain spelling alone.
func FuzzSubrequest(f *testing.F) {
	f.Add("/v1/auth/api", "GET", "/healthz", "192.0.2.7", "example.com", true)
	f.Add("/v1/auth_request/api", "POST", "/healthz/../things?x=/healthz", "::ffff:192.0.2.7", "", false)
	f.Add("/v1/ext_authz/api//healthz", "", "", "192.0.2.7, 10.0.0.1", "", true)
	f.Fuzz(func(t *testing.T, path, method, uri, client, host string, twice bool) {
		g := must.Get(gateway.New(gateway.Config{Policies: perClient(1), Limiter: core.Config{
			Store: core.NewMemory(), Bypass: []keyfuncs.Condition{keyfuncs.Paths("/healthz")}, Logger: slog.New(slog.DiscardHandler),
		}}))(t)
		r := subrequest("/")
		r.URL.Path = path
		r.Header = http.Header{"X-Forwarded-For": {client}, "X-Forwarded-Method": {method}, "X-Forwarded-Uri": {uri}, "X-Forwarded-Host": {host}}
		if twice {
			r.Header.Add("X-Forwarded-Uri", "/healthz")
		}
		codes := [2]int{}
		for i := range codes {
			codes[i] = asked{Gateway: g}.do(r).Code
		}
		target := uri
		if rest, envoy := strings.CutPrefix(path, "/v1/ext_authz/api"); envoy {
			target = rest
		}
		target, _, _ = strings.Cut(target, "?")
		switch codes[1] {
		case http.StatusTooManyRequests, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError:
		case http.StatusOK:
			if target != "/healthz" && !strings.HasSuffix(target, "/healthz") || strings.HasPrefix(target, "/") && target != "/healthz" {
				t.Errorf("%q passed", target)
			}
		default:
			t.Errorf("got %d", codes[1])
		}
	})
}
