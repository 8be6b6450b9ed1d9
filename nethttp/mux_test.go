package nethttp_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// Trap 52: a limit of a route holds wherever its limiter stands.
func TestTrap52AConditionOnARouteOfAMux(t *testing.T) {
	t.Parallel()
	type middleware = func(http.Handler) http.Handler
	through := func(h http.Handler) http.Handler { return http.HandlerFunc(h.ServeHTTP) }
	for name, tt := range map[string]struct {
		build func(limit, other middleware, mux *http.ServeMux) http.Handler
		known bool // then nothing else is limited
	}{
		"around the mux":            {func(limit, _ middleware, mux *http.ServeMux) http.Handler { return limit(mux) }, true},
		"around a limiter":          {func(limit, other middleware, mux *http.ServeMux) http.Handler { return limit(other(mux)) }, true},
		"within a limiter":          {func(limit, other middleware, mux *http.ServeMux) http.Handler { return other(limit(mux)) }, true},
		"around what hides the mux": {func(limit, _ middleware, mux *http.ServeMux) http.Handler { return limit(through(mux)) }, false},
		"around an outer mux":       {func(limit, _ middleware, mux *http.ServeMux) http.Handler { return limit(within("/", mux)) }, true},
		"around a mux in another":   {func(limit, _ middleware, mux *http.ServeMux) http.Handler { return within("/", limit(mux)) }, true},
		"around a router in a mux":  {func(limit, _ middleware, mux *http.ServeMux) http.Handler { return within("/", limit(through(mux))) }, false},
		"around a rest in a mux": {func(limit, _ middleware, mux *http.ServeMux) http.Handler {
			return within("/{rest...}", limit(through(mux)))
		}, false},
		"around a router of one host": {func(limit, _ middleware, mux *http.ServeMux) http.Handler {
			return within("example.com/", limit(through(mux)))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logins, writes := 0, 0
			mux := http.NewServeMux()
			mux.HandleFunc("POST /login", func(http.ResponseWriter, *http.Request) { logins++ })
			mux.HandleFunc("POST /items/", func(http.ResponseWriter, *http.Request) { writes++ })
			var log bytes.Buffer
			l := core.Must(core.New(core.Config{
				Store:  core.NewMemory(),
				Limits: []core.Limit{core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /login")).Named("login")},
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			}))
			other := nethttp.Limit(core.NewMemory(), core.PerDay(1000).By(keyfuncs.Everyone()))
			h := tt.build(nethttp.New(l), other, mux)
			for range 100 {
				get(h, "POST", "/login")
			}
			for range 10 {
				get(h, "POST", "/items/1")
			}
			if logins != 5 || tt.known && writes != 10 {
				t.Errorf("%d logins and %d writes, want 5 and 10", logins, writes)
			}
			if advised := strings.Contains(log.String(), "limit login: "); advised == tt.known {
				t.Errorf("logged: %s", log.String())
			}
		})
	}
}

func within(pattern string, h http.Handler) http.Handler {
	outer := http.NewServeMux()
	outer.Handle(pattern, h)
	return outer
}

// A handler for a subtree may be a router, also one that knows no prefix; a
// condition on routes elsewhere is not its own.
func TestConditionAroundAHandlerOfASubtree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, route string
		strip          string
		want           keyfuncs.Answer
	}{
		{"/api/", "POST /api/login", "", keyfuncs.Unknown},
		{"/api/{rest...}", "POST /api/login", "", keyfuncs.Unknown},
		{"/{tenant}/", "POST /login", "", keyfuncs.Unknown},
		{"/api/", "POST /login", "/api", keyfuncs.Unknown},
		{"/api/", "POST /login", "", keyfuncs.No},
		{"/api/", "GET /api/login", "", keyfuncs.No},
		{"/api/", "POST /api/", "", keyfuncs.Yes},
		{"POST /api/login", "POST /api/login", "", keyfuncs.Yes},
		{"/api/login", "POST /api/{name}", "", keyfuncs.No},
		{"/api/{name}", "POST /api/login", "", keyfuncs.No},
	} {
		var got keyfuncs.Answer
		c := keyfuncs.Routes(tt.route)
		look := nethttp.Limit(core.NewMemory(), core.PerDay(1).By(keyfuncs.Custom("look", func(r keyfuncs.Request) string {
			got = c.Ask(r)
			return "x"
		})))
		get(within(tt.pattern, http.StripPrefix(tt.strip, look(ok))), "POST", "/api/login")
		check.Equal(t, fmt.Sprintf("%s at %s", tt.route, tt.pattern), got, tt.want)
	}
}

// Trap 48: a reverse proxy takes all methods.
func TestTrap48PreflightsOfAReverseProxy(t *testing.T) {
	t.Parallel()
	ran := 0
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }))
	defer backend.Close()
	target := must.Get(url.Parse(backend.URL))(t)
	for what, bypass := range map[string][]keyfuncs.Condition{"by default": nil, "exempt": {keyfuncs.Preflight()}} {
		ran = 0
		l := core.Must(core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerDay(3).By(keyfuncs.ClientIP())}, Bypass: bypass}))
		h := nethttp.New(l)(httputil.NewSingleHostReverseProxy(target))
		for range 100 {
			r := httptest.NewRequest("OPTIONS", "/transfer", strings.NewReader(`{"amount":1}`))
			r.Header.Set("Origin", "https://app.example")
			r.Header.Set("Access-Control-Request-Method", "POST")
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		check.Equal(t, what+": requests that reached the backend", ran, 3)
	}
}

// No request line makes a bucket of its own: whatever a mux answers itself, or
// takes for the target of a redirect, is a route that was registered, or none.
func TestRequestLinesMakeNoRoutes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := make(map[string]bool)
	look := nethttp.Limit(core.NewMemory(), core.PerDay(1000).By(keyfuncs.Custom("look", func(r keyfuncs.Request) string {
		template, known := r.Route()
		if !known {
			template = "unknown"
		}
		mu.Lock()
		defer mu.Unlock()
		seen[template] = true
		return "x"
	})))
	mux := http.NewServeMux()
	mux.Handle("/w/{b}/", ok)
	mux.Handle("/tree/", ok)
	mux.Handle("GET /items/{id}", ok)
	mux.Handle("HEAD /items/{id}", ok)
	mux.Handle("example.com/host", ok)
	mux.Handle("/nested/", within("/nested/{x}", ok))
	server := httptest.NewServer(look(mux))
	defer server.Close()
	var targets []string
	for i := range 5 {
		for _, path := range []string{"/tree", "/tree/%d", "/w/x%d", "/w/x%d/", "/%d", "//w//x%d", "/x/../w/x%d/", "/items/%d", "/items/%%2f%d", "*", "http://h%d/tree", "http://example.com/host", "/nested/%d", "/nested/%d/x", "/host"} {
			if strings.Contains(path, "%") {
				path = fmt.Sprintf(path, i)
			}
			for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "CONNECT", "TRACE", "BREW"} {
				targets = append(targets, method+" "+path)
			}
		}
		targets = append(targets, fmt.Sprintf("CONNECT h%d:443", i))
	}
	for _, target := range targets {
		conn := must.Get(net.Dial("tcp", server.Listener.Addr().String()))(t)
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n", target)
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		_ = conn.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	for _, registered := range []string{"", "/w/{b}/", "/tree/", "/items/{id}", "example.com/host", "/nested/{x}"} {
		if !seen[registered] {
			t.Errorf("%q was not seen", registered)
		}
		delete(seen, registered)
	}
	if len(seen) > 0 {
		t.Errorf("routes that nobody registered: %v", seen)
	}
}

// A mux has a route of any method if it has it for one, and those of hosts.
func TestARouteOfAnyMethodIsOneOfTheMux(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("DELETE /sessions/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("admin.example/users/{id}", func(http.ResponseWriter, *http.Request) {})
	var log bytes.Buffer
	on := func(name, route string) core.Limit {
		return core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes(route)).Named(name)
	}
	l := core.Must(core.New(core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{on("there", "/sessions/{id}"), on("there-at-a-host", "admin.example/users/{id}"), on("misspelt", "/session/{id}")},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}))
	nethttp.New(l)(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("DELETE", "/sessions/7", nil))
	check.Contains(t, "log", log.String(), "limit misspelt: the router has no route")
	if strings.Contains(log.String(), "limit there") {
		t.Errorf("advice on a route that there is: %s", &log)
	}
}
