package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	os.Exit(limittest.Main(m))
}

const token = "monitoring-0123456789"

func TestAPI(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		api, err := New(Config{Store: store, BypassToken: token, Plans: Plans, Keys: Keys})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			t.Run(c.name, func(t *testing.T) { c.run(t, api) })
		}
	})
}

// A client that makes up API keys is counted by its address, and leaves no other entry.
func TestMadeUpKeysLeaveNothing(t *testing.T) {
	t.Parallel()
	store := &spy{Memory: core.NewMemory(), keys: map[string]bool{}}
	api, err := New(Config{Store: store, BypassToken: token, Plans: Plans, Keys: Keys})
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[int]int{}
	for n := range 2000 {
		r := httptest.NewRequest("GET", "/v1/items", nil)
		r.Header.Set("X-API-Key", fmt.Sprint("made-up-", n))
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		statuses[w.Code]++
	}
	if statuses[http.StatusTooManyRequests] == 0 || statuses[http.StatusOK] != 0 || len(store.keys) != 1 {
		t.Errorf("statuses %v, %d keys in the store", statuses, len(store.keys))
	}
}

// spy notes the keys that a store is asked about.
type spy struct {
	*core.Memory
	keys map[string]bool
}

func (s *spy) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	for i := range checks {
		s.keys[string(checks[i].Key)] = true
	}
	return s.Memory.Take(ctx, checks, results)
}

// call is made until it is denied.
type call struct {
	name, request string
	headers       []string // name: value
	passes        int      // then 429; with unlimited, all of them pass
	unlimited     bool
	limit         string // that the denial names
	unknown       bool   // 401 at once, since nobody is signed in
}

var calls = []call{
	{name: "five logins", request: "POST /login", passes: 5, limit: "login"},
	{name: "three codes", request: "POST /otp", passes: 3, limit: "otp"},
	{name: "ten uploads at once", request: "POST /uploads", headers: []string{"Authorization: Bearer alice"}, passes: 10, limit: "uploads"},
	{name: "300 mutations a minute", request: "POST /articles", headers: []string{"Authorization: Bearer alice"}, passes: 300, limit: "mutations"},
	{name: "20 questions", request: "POST /ai", headers: []string{"Authorization: Bearer alice"}, passes: 20, limit: "ai"},
	{name: "no questions by nobody", request: "POST /ai", unknown: true},
	{name: "30 anonymous searches", request: "GET /search", passes: 30, limit: "anonymous-search"},
	{name: "searches of those we know", request: "GET /search", headers: []string{"Authorization: Bearer bob"}, passes: 100, unlimited: true},
	{name: "two exports a second", request: "GET /v1/export", headers: []string{"X-API-Key: one"}, passes: 2, limit: "key-export"},
	{name: "ten searches a second", request: "GET /v1/search", headers: []string{"X-API-Key: two"}, passes: 10, limit: "key-search"},
	{name: "60 items a second", request: "GET /v1/items", headers: []string{"X-API-Key: three"}, passes: 60, limit: "key"},
	{name: "the free plan", request: "GET /app/report", headers: []string{"Authorization: Bearer alice"}, passes: 60, limit: "plan"},
	{name: "the basic plan", request: "GET /app/report", headers: []string{"Authorization: Bearer bob"}, passes: 600, limit: "plan"},
	{name: "a plan is somebody's", request: "GET /app/report", unknown: true},
	{name: "health checks", request: "GET /healthz", passes: 100, unlimited: true},
	{name: "the monitoring", request: "POST /login", headers: []string{"X-Bypass-Token: " + token}, passes: 100, unlimited: true},
	{name: "a guess at the token", request: "POST /login", headers: []string{"X-Bypass-Token: guess"}, limit: "login"},
	{name: "a provider's webhooks", request: "POST /webhooks/pay", headers: []string{"from: 192.0.2.9"}, passes: 100, unlimited: true},
}

func (c call) run(t *testing.T, api http.Handler) {
	passed := 0
	// A bucket refills while the test runs: allow for that.
	for ; passed < c.passes+c.passes/2+2; passed++ {
		method, path, _ := strings.Cut(c.request, " ")
		r := httptest.NewRequest(method, path, nil)
		r.RemoteAddr = "203.0.113.7:1234"
		for _, h := range c.headers {
			name, value, _ := strings.Cut(h, ": ")
			if name == "from" {
				r.RemoteAddr = value + ":1234"
			}
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if c.unknown {
			if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			return
		}
		if w.Code == http.StatusTooManyRequests {
			if !strings.Contains(w.Body.String(), `"violated-policies":["`+c.limit+`"]`) {
				t.Errorf("denied by %s, want %s", w.Body, c.limit)
			}
			break
		}
		if w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}
	if c.unlimited {
		if passed < c.passes {
			t.Errorf("denied after %d", passed)
		}
		return
	}
	if passed < c.passes || passed > c.passes+c.passes/2 {
		t.Errorf("%d passed, want %d", passed, c.passes)
	}
}
