package inspect_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/metrics/top"
)

func TestNewRefusesWhatCanNotBeSafe(t *testing.T) {
	t.Parallel()
	heavy := top.New(top.Config{})
	t.Cleanup(heavy.Close)
	anybody := func(*http.Request) (string, inspect.Permission) { return "anybody", inspect.Act }
	for _, test := range []struct {
		name, want string
		change     func(*inspect.Config)
	}{
		{"nobody who authorizes", "needs Authorize or Users", func(c *inspect.Config) { c.Users = nil }},
		{"two that authorize", "both Authorize and Users", func(c *inspect.Config) { c.Authorize = anybody }},
		{"no store", "Store is missing", func(c *inspect.Config) { c.Store = nil }},
		{"a nil store", "Store is missing", func(c *inspect.Config) { c.Store = (*core.Memory)(nil) }},
		{"no top", "Top is missing", func(c *inspect.Config) { c.Top = nil }},
		{"an empty password", "at least 16 bytes", func(c *inspect.Config) { c.Users = []inspect.User{{Name: "a", May: inspect.Act}} }},
		{"a short password", "at least 16 bytes", func(c *inspect.Config) {
			c.Users = []inspect.User{{Name: "a", Password: "letmein", May: inspect.Act}}
		}},
		{"a user without a name", "the name must", func(c *inspect.Config) { c.Users = []inspect.User{{Password: operator, May: inspect.Act}} }},
		{"a user who may do nothing", "set May", func(c *inspect.Config) { c.Users = []inspect.User{{Name: "a", Password: operator}} }},
		{"a user twice", "two users", func(c *inspect.Config) { c.Users = append(c.Users[:1:1], c.Users[0]) }},
		{"a host with a port", "Hosts[0]", func(c *inspect.Config) { c.Hosts = []string{"example.com:8080"} }},
		{"a URL as host", "Hosts[0]", func(c *inspect.Config) { c.Hosts = []string{"https://example.com"} }},
		{"all hosts", "Hosts[0]", func(c *inspect.Config) { c.Hosts = []string{"*"} }},
		{"blocks for ever", "MaxBlock", func(c *inspect.Config) { c.MaxBlock = 100 * 365 * 24 * time.Hour }},
		{"a negative number of streams", "MaxStreams", func(c *inspect.Config) { c.MaxStreams = -1 }},
		{"no time", "Timeout", func(c *inspect.Config) { c.Timeout = 1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := inspect.Config{Store: memstore.New(), Top: heavy, Users: users}
			test.change(&config)
			h, err := inspect.New(config)
			if err == nil || h != nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "letmein") {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestWhoMayWhat(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	for _, test := range []struct {
		name               string
		who                func(*http.Request)
		page, look, action int
	}{
		{"an operator", as("olga", operator), 200, 200, 200},
		{"a visitor", as("vic", visitor), 200, 200, 403},
		{"a stranger", func(r *http.Request) { r.Header.Del("Authorization") }, 401, 401, 401},
		{"a wrong password", as("olga", visitor), 401, 401, 401},
		{"an unknown name", as("root", operator), 401, 401, 401},
		{"no password", as("olga", ""), 401, 401, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for path, want := range map[string]int{
				"": test.page, "app.js": test.page, "style.css": test.page, "api/v1/overview": test.look, "api/v1/blocks": test.look,
				"api/v1/health": test.look, "api/v1/limits": test.look,
			} {
				in.wantStatus(t, want, "GET", path, "", test.who)
			}
			in.wantStatus(t, test.look, "POST", "api/v1/explain", `{"query":"a"}`, test.who)
			in.wantStatus(t, test.action, "POST", "api/v1/reset", `{"key":"a"}`, test.who)
		})
	}
}

func TestAnAuthorizerThatSaysNothingLetsNobodyIn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		want      int
		authorize func(*http.Request) (string, inspect.Permission)
	}{
		"no actor":              {401, func(*http.Request) (string, inspect.Permission) { return "", inspect.Act }},
		"no permission":         {403, func(*http.Request) (string, inspect.Permission) { return "a", inspect.None }},
		"an unknown permission": {403, func(*http.Request) (string, inspect.Permission) { return "a", 77 }},
		"a panic":               {403, func(*http.Request) (string, inspect.Permission) { panic("broken") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := start(t, memstore.New(), func(c *inspect.Config) { c.Users, c.Authorize = nil, test.authorize })
			for _, path := range []string{"", "app.js", "api/v1/overview", "api/v1/stream"} {
				in.wantStatus(t, test.want, "GET", path, "")
			}
		})
	}
}

func TestForgedActionsAreRefused(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	block := `{"key":"header.x-user:alice","limit":"per-user","seconds":600}`
	for _, test := range []struct {
		name   string
		status int
		change func(*http.Request)
	}{
		{"a form of another site", 403, with("Sec-Fetch-Site", "cross-site")},
		{"a form of another host of the site", 403, with("Sec-Fetch-Site", "same-site")},
		{"an origin that is not ours, of an old browser", 403, with("Origin", "https://evil.example")},
		{"the origin null of a sandbox", 403, with("Origin", "null")},
		{"no header of ours, so that CORS was not asked", 403, with("Weblimit-Inspect", "")},
		{"the type of a form", 415, with("Content-Type", "text/plain")},
		{"a form's fields", 415, with("Content-Type", "application/x-www-form-urlencoded")},
		{"no type", 415, with("Content-Type", "")},
	} {
		t.Run(test.name, func(t *testing.T) {
			in.wantStatus(t, test.status, "POST", "api/v1/block", block, test.change)
		})
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"} {
		in.wantStatus(t, http.StatusMethodNotAllowed, method, "api/v1/block", block)
	}
	check.Equal(t, "the request of alice, who is not blocked", in.request("alice"), http.StatusOK)
	if strings.Contains(in.log.String(), "inspect action") {
		t.Errorf("an action was done: %s", in.log.String())
	}
}

func TestPagesOfOthersCanNotOpenStreams(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	for _, path := range []string{"stream", "overview", "blocks"} {
		in.wantStatus(t, http.StatusForbidden, "GET", "api/v1/"+path, "", with("Sec-Fetch-Site", "cross-site"))
	}
}

func TestForeignNamesOfTheServerShowNothing(t *testing.T) {
	t.Parallel()
	standard := start(t, memstore.New())
	named := start(t, memstore.New(), func(c *inspect.Config) { c.Hosts = []string{"Limits.Example.com."} })
	for _, test := range []struct {
		host            string
		standard, named int
	}{
		{"127.0.0.1:8080", 200, 421},
		{"[::1]:8080", 200, 421},
		{"[::1]", 200, 421},
		{"localhost", 200, 421},
		{"app.localhost:8080", 200, 421},
		{"limits.example.com", 421, 200},
		{"LIMITS.example.com:443", 421, 200},
		{"evil.example", 421, 421},
		{"limits.example.com.evil.example", 421, 421},
		{"localhost.evil.example", 421, 421},
		{"127.0.0.1.evil.example", 421, 421},
		{"evil.example:localhost", 421, 421},
	} {
		for in, want := range map[*instance]int{standard: test.standard, named: test.named} {
			r := httptest.NewRequest(http.MethodGet, "/api/v1/overview", http.NoBody)
			r.SetBasicAuth("olga", operator)
			r.Host = test.host
			w := httptest.NewRecorder()
			in.page.ServeHTTP(w, r)
			check.Equal(t, "host "+test.host, w.Code, want)
			if w.Code != 200 && strings.Contains(w.Body.String(), "per-user") {
				t.Errorf("host %q sees the limits", test.host)
			}
		}
	}
}

func TestEveryAnswerHasTheHeadersThatKeepItSafe(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	for _, path := range []string{"/", "/app.js", "/style.css", "/none.js", "/ops", "/api/v1/overview", "/api/v1/none", "/api/v1/block"} {
		for _, authorized := range []bool{true, false} {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, http.NoBody)
			if authorized {
				r.SetBasicAuth("olga", operator)
			}
			w := httptest.NewRecorder()
			in.page.ServeHTTP(w, r)
			h := w.Header()
			csp := h.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
				check.Contains(t, path+": the policy", csp, want)
			}
			if strings.Contains(csp, "unsafe") {
				t.Errorf("%s: the policy is %q", path, csp)
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
				"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
			} {
				check.Equal(t, path+": "+name, h.Get(name), want)
			}
			if cache := h.Get("Cache-Control"); cache != "no-store" && cache != "private, no-cache" {
				t.Errorf("%s: Cache-Control is %q", path, cache)
			}
		}
	}
}
