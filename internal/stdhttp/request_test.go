package stdhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unsafe"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestPeer(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.7:80":           "192.0.2.7",
		"192.0.2.7":              "192.0.2.7",
		"[2001:db8::1]:80":       "2001:db8::1",
		"[2001:db8::1]":          "2001:db8::1",
		"2001:db8::1":            "2001:db8::1",
		"::1":                    "::1",
		"[::ffff:192.0.2.7]:80":  "::ffff:192.0.2.7",
		"::ffff:192.0.2.7":       "::ffff:192.0.2.7",
		"[fe80::1%eth0]:80":      "fe80::1%eth0",
		"fe80::1%eth0":           "fe80::1%eth0",
		"":                       "",
		"@":                      "",
		"/run/app.sock":          "",
		"pipe":                   "",
		"localhost:80":           "",
		"192.0.2.7:":             "",
		"192.0.2.7:http":         "",
		"192.0.2.7:80:80":        "",
		"192.0.2.07:80":          "",
		"192.0.2.256:80":         "",
		":80":                    "",
		"[]:80":                  "",
		"[]":                     "",
		"[":                      "",
		"[2001:db8::1":           "",
		"2001:db8::1]:80":        "",
		"[192.0.2.7]":            "",
		"[192.0.2.7]:80":         "",
		" 192.0.2.7:80":          "",
		"192.0.2.7, 203.0.113.9": "",
		"[2001:db8::1]]":         "",
		"[[2001:db8::1]]:80":     "",
		"0xc0.0.2.7:80":          "",
		"3221225991:80":          "",
	} {
		got := ""
		if ip := peer(addr); ip.IsValid() {
			got = ip.String()
		}
		check.Equal(t, fmt.Sprintf("peer(%q)", addr), got, want)
	}
}

// What the short way takes for an address is one, and the same, to netip.
func FuzzPeerIsTheOneOfNetip(f *testing.F) {
	for _, addr := range []string{
		"192.0.2.7:80", "0.0.0.0:0", "255.255.255.255:65535", "1.2.3.4:65536", "1.2.3.4:00080", "1.2.3.4:000080", "1.2.3.4:+8", "1.2.3.4:-8",
		"01.2.3.4:80", "1.2.3.00:80", "1.2.3.256:80", "1.2.3:80", "1.2.3.4.5:80", "1.2.3.4:", "1.2.3.4", "1..3.4:80", ".1.2.3:80", "1.2.3.4:8 ",
		"1.2.3.4:8_0", "::ffff:1.2.3.4:80", "[::ffff:1.2.3.4]:80", "1.2.3.4%a:80", "1.2.3.1000:80", "999.1.1.1:1", "", ":", "1", "1.2.3.",
	} {
		f.Add(addr)
	}
	f.Fuzz(func(t *testing.T, addr string) {
		want, err := netip.ParseAddrPort(addr)
		got, ok := peer4(addr)
		if ok && (err != nil || got != want.Addr()) {
			t.Errorf("%q: %v, %v; netip says %v, %v", addr, got, ok, want, err)
		}
	})
}

// The allocator has 576 bytes for such an object, of which 8 are its own. http.Request may grow in a
// later Go: then HeaderRoom.Text is what can shrink.
func TestAnExchangeIsASmallObject(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(exchange{}); size > 568 {
		t.Errorf("an exchange has %d bytes, want at most 568", size)
	}
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"":                           "",
		"/":                          "/",
		"/users/{id}":                "/users/{id}",
		"GET /users/{id}":            "/users/{id}",
		"GET \t /users/{id}":         "/users/{id}",
		"example.com/users/{id}":     "example.com/users/{id}",
		"GET example.com/users/{id}": "example.com/users/{id}",
	} {
		check.Equal(t, fmt.Sprintf("Template(%q)", pattern), Template(pattern), want)
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "http://example.com/", nil)
	r.Header["X-Tenant"] = []string{"a", ""}
	for _, tt := range []struct {
		name, want string
		i          int
		ok         bool
	}{
		{"X-Tenant", "a", 0, true},
		{"X-Tenant", "", 1, true},
		{"X-Tenant", "", 2, false},
		{"X-Tenant", "", -1, false},
		{"X-Other", "", 0, false},
		{"Host", "example.com", 0, true},
	} {
		if got, ok := Of(r).Header(tt.name, tt.i); got != tt.want || ok != tt.ok {
			t.Errorf("Header(%q, %d) = %q, %v; want %q, %v", tt.name, tt.i, got, ok, tt.want, tt.ok)
		}
	}
	if _, ok := Of(r).Header("Host", 1); ok {
		t.Error("Host has a second line")
	}
}

func TestPathIsAsItWasSent(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/a%2Fb", "/a%20b/../c", "//a"} {
		u := must.Get(url.ParseRequestURI(path))(t)
		// Where RawPath is not needed net/url leaves it out.
		if got := Of(&http.Request{URL: u}).Path(); got != path && got != u.Path {
			t.Errorf("Path of %q is %q", path, got)
		}
	}
}

var cookies = []string{
	"", "sid=a", "sid=a; sid=b", "x=1; sid=a", "x=1;sid=a", "sid=", "sid", `sid="a"`, `sid="a b"`, `sid="`, `sid=""`,
	"sid=a\"b; sid=c", "sid =a", " sid=a ", "sid= a", "SID=a", "sid=a=b", ";;sid=a", "sid=\xff; sid=c", "sid=a\\b", "=sid", "sid==",
}

func TestCookieIsTheOneOfNetHTTP(t *testing.T) {
	t.Parallel()
	for _, line := range cookies {
		sameCookie(t, line, "")
		sameCookie(t, "x=1", line)
		sameCookie(t, line, "sid=z")
	}
}

func FuzzCookieIsTheOneOfNetHTTP(f *testing.F) {
	for _, line := range cookies {
		f.Add(line, "sid=z")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.Count(a, ";")+strings.Count(b, ";") < 2000 { // net/http gives up beyond
			sameCookie(t, a, b)
		}
	})
}

func sameCookie(t *testing.T, lines ...string) {
	t.Helper()
	r := &http.Request{Header: http.Header{"Cookie": lines}}
	first, err := r.Cookie("sid")
	if got, ok := Of(r).Cookie("sid", 0); ok != (err == nil) || ok && got != first.Value {
		t.Errorf("cookie in %q: %q, %v; net/http: %v, %v", lines, got, ok, first, err)
	}
	all := r.CookiesNamed("sid")
	for i := range len(all) + 2 {
		got, ok := Of(r).Cookie("sid", i)
		if ok != (i < len(all)) || ok && got != all[i].Value {
			t.Errorf("cookie %d in %q: %q, %v; net/http has %d", i, lines, got, ok, len(all))
		}
	}
}

var queries = []string{
	"", "k=a", "k=a&k=b", "x=1&k=a", "k", "k=", "k&k=a", "%6b=a", "k=%61", "k=a+b", "k=%zz&k=b", "k=%", "%=a&k=b",
	"k=a;b&k=c", "a;k=b", "&&k=a", "k==a", "K=a", "k%00=a", "+k=a", "k=\xff",
}

func TestQueryIsTheOneOfNetURL(t *testing.T) {
	t.Parallel()
	for _, q := range queries {
		sameQuery(t, q)
	}
}

func FuzzQueryIsTheOneOfNetURL(f *testing.F) {
	for _, q := range queries {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		if strings.Count(q, "&") < 2000 { // net/url gives up beyond
			sameQuery(t, q)
		}
	})
}

func sameQuery(t *testing.T, raw string) {
	t.Helper()
	u := &url.URL{RawQuery: raw}
	want := u.Query()["k"]
	for i := range len(want) + 2 {
		got, ok := Of(&http.Request{URL: u}).Query("k", i)
		if ok != (i < len(want)) || ok && got != want[i] {
			t.Errorf("query %q: value %d is %q, %v; net/url: %q", raw, i, got, ok, want)
		}
	}
}

type contextKey struct{}

// Not parallel: testing.AllocsPerRun counts the allocations of the process.
func TestRequestDoesNotAllocate(t *testing.T) {
	r := httptest.NewRequest("GET", "/items/1?x=1&key=abc", nil)
	r.Header["Cookie"] = []string{"a=b; sid=abc"}
	r.Header["X-Tenant"] = []string{"a"}
	r.Pattern = "GET /items/{id}"
	r = r.WithContext(context.WithValue(r.Context(), contextKey{}, "alice"))
	for name, read := range map[string]func(keyfuncs.Request){
		"Header": func(r keyfuncs.Request) { r.Header("X-Tenant", 0) },
		"Cookie": func(r keyfuncs.Request) { r.Cookie("sid", 0); r.Cookie("sid", 1) },
		"Query":  func(r keyfuncs.Request) { r.Query("key", 0); r.Query("key", 1) },
		"Peer":   func(r keyfuncs.Request) { r.Peer() },
		"Route":  func(r keyfuncs.Request) { r.Route() },
		"Value":  func(r keyfuncs.Request) { r.Value(contextKey{}) },
		"others": func(r keyfuncs.Request) { r.Method(); r.Path(); r.Context() },
	} {
		if allocs := testing.AllocsPerRun(100, func() { read(Of(r)) }); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
	for _, addr := range []string{"192.0.2.7:80", "192.0.2.7", "[2001:db8::1]:80", "[2001:db8::1]", "2001:db8::1", "@", ""} {
		var ip netip.Addr
		if allocs := testing.AllocsPerRun(100, func() { ip = peer(addr) }); allocs != 0 {
			t.Errorf("peer(%q): %v allocations for %v", addr, allocs, ip)
		}
	}
}
