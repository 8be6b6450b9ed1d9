package fibertest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// item is a request for the route of seen.
func item() *http.Request { return httptest.NewRequest("GET", "/items/1", nil) }

func (s suite[C]) request(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/items/%61?k=a+b&k=c&e&%6b2=%zz", nil)
	r.Host = "Example.com"
	r.Header["X-Tenant"] = []string{"a", "", "c"}
	r.Header["Cookie"] = []string{`theme=dark; sid="abc"`, "sid=def; empty="}
	r.Header["User-Agent"] = []string{"test"}
	s.seen(t, Options[C]{}, r, func(c C, r keyfuncs.Request) {
		type read = func() (string, bool)
		header := func(name string, i int) read { return func() (string, bool) { return r.Header(name, i) } }
		cookie := func(name string, i int) read { return func() (string, bool) { return r.Cookie(name, i) } }
		query := func(name string, i int) read { return func() (string, bool) { return r.Query(name, i) } }
		for name, tt := range map[string]struct {
			read read
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
			"cookie":             {cookie("sid", 0), c.Cookies("sid"), true},
			"cookie in quotes":   {cookie("sid", 0), "abc", true},
			"cookie again":       {cookie("sid", 1), "def", true},
			"cookie, no more":    {cookie("sid", 2), "", false},
			"other cookie":       {cookie("theme", 0), "dark", true},
			"no cookie":          {cookie("none", 0), "", false},
			"query":              {query("k", 0), "a b", true},
			"query again":        {query("k", 1), "c", true},
			"query, no more":     {query("k", 2), "", false},
			"query as Fiber":     {query("k", 0), c.Query("k"), true},
			"query, odd escapes": {query("k2", 0), c.Query("k2"), true},
			"no query":           {query("none", 0), "", false},
		} {
			if got, ok := tt.read(); got != tt.want || ok != tt.ok {
				t.Errorf("%s: %q, %v; want %q, %v", name, got, ok, tt.want, tt.ok)
			}
		}
	})
}

// The host in the first line wins over the header's.
func (s suite[C]) absoluteForm(t *testing.T) {
	t.Parallel()
	r := item()
	r.URL.Scheme, r.URL.Opaque, r.Host = "http", "//first.example/items/1", "second.example"
	s.seen(t, Options[C]{}, r, func(_ C, r keyfuncs.Request) {
		host, _ := r.Header("Host", 0)
		check.Equal(t, "host", strings.Clone(host), "first.example")
	})
}

func (s suite[C]) peer(t *testing.T) {
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
		r := item()
		r.RemoteAddr = addr
		s.seen(t, Options[C]{}, r, func(_ C, r keyfuncs.Request) {
			check.Equal(t, "peer at "+addr, address(r.Peer()), want)
		})
	}
}

// Listeners may have addresses of their own types.
func (s suite[C]) otherPeer(t *testing.T) {
	t.Parallel()
	for addr, want := range map[other]string{
		"192.0.2.7:80":          "192.0.2.7",
		"[::ffff:192.0.2.7]:80": "192.0.2.7",
		"pipe":                  "",
		"":                      "",
	} {
		s.seen(t, Options[C]{}, item(), func(c C, r keyfuncs.Request) {
			s.f.SetPeer(c, addr)
			check.Equal(t, "peer at "+string(addr), address(r.Peer()), want)
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
func (s suite[C]) proxyHeader(t *testing.T) {
	t.Parallel()
	r := item()
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	s.seen(t, Options[C]{ProxyHeader: "X-Forwarded-For"}, r, func(c C, r keyfuncs.Request) {
		framework := r.(interface{ FrameworkIP() string }).FrameworkIP()
		if got := address(r.Peer()); c.IP() != "203.0.113.9" || framework != c.IP() || got != "192.0.2.1" {
			t.Errorf("peer %s, c.IP() %s, the framework's %s", got, c.IP(), framework)
		}
	})
}

type contextKey struct{}

// Not parallel: testing.AllocsPerRun counts the allocations of the process.
func (s suite[C]) allocations(t *testing.T) {
	r := httptest.NewRequest("GET", "/items/1?x=1&key=a%62c", nil)
	r.Header["Cookie"] = []string{"a=b; sid=abc"}
	r.Header["X-Tenant"] = []string{"a", "b"}
	s.seen(t, Options[C]{}, r, func(c C, r keyfuncs.Request) {
		c.Locals("user", "alice")
		s.f.SetContext(context.WithValue(context.Background(), contextKey{}, "alice"), c)
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
			check.Equal(t, name+": allocations", testing.AllocsPerRun(100, read), 0)
		}
	})
}

// Risk checks whether a limiter that keys by c.IP is told of a risk.
func Risk[C Ctx[C]](t *testing.T, f Framework[C], options Options[C], risky bool) {
	t.Helper()
	Seen(t, f, options, item(), func(_ C, r keyfuncs.Request) {
		if risk := r.(interface{ FrameworkRisk() string }).FrameworkRisk(); (risk != "") != risky {
			t.Errorf("%+v: risk %q", options, risk)
		}
	})
}

// serveOnce sends r to an app, and expects an answer.
func serveOnce[C any](t *testing.T, app App[C], r *http.Request) {
	t.Helper()
	_ = must.Get(limittest.Exchange(app.ServeConn, r))(t).Body.Close()
}
