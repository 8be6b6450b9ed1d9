package fiber3limit

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// seen calls read with what a limiter at the route "/items/:id" sees of r.
func seen(t *testing.T, config fiber.Config, r *http.Request, read func(fiber.Ctx, keyfuncs.Request)) {
	t.Helper()
	routed(t, config, fiber.MethodGet, r, read)
}

// routed is seen for a method.
func routed(t *testing.T, config fiber.Config, method string, r *http.Request, read func(fiber.Ctx, keyfuncs.Request)) {
	t.Helper()
	app, called := fiber.New(config), false
	app.Add([]string{method}, "/items/:id", func(c fiber.Ctx) error {
		called = true
		read(c, acquire(c, new(routes), new(settingsCache).of(c)))
		return nil
	})
	app.Handler()
	res, err := limittest.Exchange(app.Server().ServeConn, r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if !called {
		t.Fatalf("the handler was not called: %d", res.StatusCode)
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/items/%61?k=a+b&k=c&e&%6b2=%zz", nil)
	r.Host = "Example.com"
	r.Header["X-Tenant"] = []string{"a", "", "c"}
	r.Header["Cookie"] = []string{`theme=dark; sid="abc"`, "sid=def; empty="}
	r.Header["User-Agent"] = []string{"test"}
	seen(t, fiber.Config{}, r, func(c fiber.Ctx, r keyfuncs.Request) {
		header := func(name string, i int) func() (string, bool) {
			return func() (string, bool) { return r.Header(name, i) }
		}
		for name, tt := range map[string]struct {
			read func() (string, bool)
			want string
			ok   bool
		}{
			"method":             {func() (string, bool) { return r.Method(), true }, "GET", true},
			"path":               {func() (string, bool) { return r.Path(), true }, "/items/%61", true},
			"route":              {r.Route, "/items/:id", true},
			"line 0":             {header("X-Tenant", 0), "a", true},
			"line 1":             {header("X-Tenant", 1), "", true},
			"line 2":             {header("X-Tenant", 2), "c", true},
			"line 3":             {header("X-Tenant", 3), "", false},
			"line -1":            {header("X-Tenant", -1), "", false},
			"no line":            {header("X-Other", 0), "", false},
			"host":               {header("Host", 0), c.Hostname(), true},
			"host again":         {header("Host", 1), "", false},
			"user agent":         {header("User-Agent", 0), "test", true},
			"user agent again":   {header("User-Agent", 1), "", false},
			"cookie":             {func() (string, bool) { return r.Cookie("sid", 0) }, c.Cookies("sid"), true},
			"cookie in quotes":   {func() (string, bool) { return r.Cookie("sid", 0) }, "abc", true},
			"cookie again":       {func() (string, bool) { return r.Cookie("sid", 1) }, "def", true},
			"cookie, no more":    {func() (string, bool) { return r.Cookie("sid", 2) }, "", false},
			"query again":        {func() (string, bool) { return r.Query("k", 1) }, "c", true},
			"query, no more":     {func() (string, bool) { return r.Query("k", 2) }, "", false},
			"other cookie":       {func() (string, bool) { return r.Cookie("theme", 0) }, "dark", true},
			"no cookie":          {func() (string, bool) { return r.Cookie("none", 0) }, "", false},
			"query":              {func() (string, bool) { return r.Query("k", 0) }, "a b", true},
			"query as Fiber":     {func() (string, bool) { return r.Query("k", 0) }, c.Query("k"), true},
			"query, odd escapes": {func() (string, bool) { return r.Query("k2", 0) }, c.Query("k2"), true},
			"no query":           {func() (string, bool) { return r.Query("none", 0) }, "", false},
		} {
			if got, ok := tt.read(); got != tt.want || ok != tt.ok {
				t.Errorf("%s: %q, %v; want %q, %v", name, got, ok, tt.want, tt.ok)
			}
		}
	})
}

// The host in the first line wins over the header's.
func TestHostOfAnAbsoluteForm(t *testing.T) {
	t.Parallel()
	app := fiber.New()
	var got string
	app.Get("/items/:id", func(c fiber.Ctx) error {
		host, _ := acquire(c, new(routes), new(settingsCache).of(c)).Header("Host", 0)
		got = string([]byte(host))
		return nil
	})
	app.Handler()
	r := httptest.NewRequest("GET", "/", nil)
	r.URL.Scheme, r.URL.Opaque, r.Host = "http", "//first.example/items/1", "second.example"
	res, err := limittest.Exchange(app.Server().ServeConn, r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if got != "first.example" {
		t.Errorf("host %q", got)
	}
}

func TestPeer(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.7:80":           "192.0.2.7",
		"[2001:db8::1]:80":       "2001:db8::1",
		"[::ffff:192.0.2.7]:80":  "192.0.2.7",
		"[fe80::1%eth0]:80":      "fe80::1%eth0",
		"@":                      "", // a unix socket
		"0.0.0.0:0":              "",
		"[::]:0":                 "",
		"[::ffff:192.0.2.255]:0": "192.0.2.255",
	} {
		r := httptest.NewRequest("GET", "/items/1", nil)
		r.RemoteAddr = addr
		seen(t, fiber.Config{}, r, func(_ fiber.Ctx, r keyfuncs.Request) {
			if got := address(r.Peer()); got != want {
				t.Errorf("peer at %s is %q, want %q", addr, got, want)
			}
		})
	}
}

// Listeners may have addresses of their own types.
func TestPeerOfAnotherAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[other]string{
		"192.0.2.7:80":          "192.0.2.7",
		"[::ffff:192.0.2.7]:80": "192.0.2.7",
		"pipe":                  "",
		"":                      "",
	} {
		seen(t, fiber.Config{}, httptest.NewRequest("GET", "/items/1", nil), func(c fiber.Ctx, r keyfuncs.Request) {
			c.RequestCtx().SetRemoteAddr(addr)
			if got := address(r.Peer()); got != want {
				t.Errorf("peer at %s is %q, want %q", addr, got, want)
			}
		})
	}
}

type other string

func (other) Network() string  { return "other" }
func (a other) String() string { return string(a) }

var _ net.Addr = other("")

func address(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	return ip.String()
}

// c.IP believes a header once ProxyHeader names it; the peer does not change.
func TestProxyHeaderIsTheFrameworks(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/items/1", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	seen(t, fiber.Config{ProxyHeader: "X-Forwarded-For", TrustProxy: true, TrustProxyConfig: fiber.TrustProxyConfig{Proxies: []string{"192.0.2.1"}}}, r, func(c fiber.Ctx, r keyfuncs.Request) {
		framework := r.(interface{ FrameworkIP() string }).FrameworkIP()
		if got := address(r.Peer()); c.IP() != "203.0.113.9" || framework != c.IP() || got != "192.0.2.1" {
			t.Errorf("peer %s, c.IP() %s, the framework's %s", got, c.IP(), framework)
		}
	})
}

type contextKey struct{}

// Not parallel: testing.AllocsPerRun counts the allocations of the process.
func TestRequestDoesNotAllocate(t *testing.T) {
	r := httptest.NewRequest("GET", "/items/1?x=1&key=a%62c", nil)
	r.Header["Cookie"] = []string{"a=b; sid=abc"}
	r.Header["X-Tenant"] = []string{"a", "b"}
	seen(t, fiber.Config{}, r, func(c fiber.Ctx, r keyfuncs.Request) {
		c.Locals("user", "alice")
		c.SetContext(context.WithValue(context.Background(), contextKey{}, "alice"))
		for name, read := range map[string]func(){
			"Header":  func() { r.Header("X-Tenant", 1) },
			"Host":    func() { r.Header("Host", 0) },
			"Cookie":  func() { r.Cookie("sid", 0) },
			"Query":   func() { r.Query("key", 0) },
			"Peer":    func() { r.Peer() },
			"Route":   func() { r.Route() },
			"local":   func() { r.Value("user") },
			"context": func() { r.Value(contextKey{}) },
			"others":  func() { r.Method(); r.Path(); r.Context() },
		} {
			if allocs := testing.AllocsPerRun(100, read); allocs != 0 {
				t.Errorf("%s: %v allocations", name, allocs)
			}
		}
	})
}

func TestFrameworkRisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		config fiber.Config
		risky  bool
	}{
		{"by default c.IP is the peer", fiber.Config{}, false},
		{"no header is read from peers that are not trusted", fiber.Config{ProxyHeader: "X-Forwarded-For"}, false},
		{"X-Forwarded-For from proxies", fiber.Config{ProxyHeader: "x-forwarded-for", TrustProxy: true, EnableIPValidation: true}, true},
		{"X-Real-IP from proxies", fiber.Config{ProxyHeader: "X-Real-IP", TrustProxy: true, TrustProxyConfig: fiber.TrustProxyConfig{Proxies: []string{"10.0.0.0/8"}}}, false},
		{"X-Real-IP from everybody", fiber.Config{ProxyHeader: "X-Real-IP", TrustProxy: true, TrustProxyConfig: fiber.TrustProxyConfig{Proxies: []string{"10.0.0.1", "0.0.0.0/0"}}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen(t, tt.config, httptest.NewRequest("GET", "/items/1", nil), func(_ fiber.Ctx, r keyfuncs.Request) {
				if risk := r.(*request).FrameworkRisk(); (risk != "") != tt.risky {
					t.Errorf("risk: %q", risk)
				}
			})
		})
	}
}
