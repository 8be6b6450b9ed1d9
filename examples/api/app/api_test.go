package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/weblimittest"
)

func init() { gin.SetMode(gin.TestMode) }

const token = "monitoring-0123456789"

// Each limit lets its number of requests through, denies the next, and keeps its word on when to
// come back.
func TestAPI(t *testing.T) {
	t.Parallel()
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := weblimittest.New(t)
			api := newAPI(t, store)
			for range c.passes {
				if w := c.send(api); w.Code != http.StatusOK {
					t.Fatalf("status %d: %s", w.Code, w.Body)
				}
			}
			if c.limit != "" {
				denied := c.send(api)
				weblimittest.Denied(t, denied, c.limit)
				store.Advance(weblimittest.RetryAfter(t, denied))
				weblimittest.Allowed(t, c.send(api))
			}
		})
	}
}

func TestNobodyHasNoPlan(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"POST /ai", "GET /app/report"} {
		w := call{request: request}.send(newAPI(t, weblimittest.New(t)))
		if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s by nobody: status %d: %s", request, w.Code, w.Body)
		}
	}
}

// A client that makes up API keys is counted by its address, and leaves no other entry.
func TestMadeUpKeysLeaveNothing(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	api := newAPI(t, store)
	for n := range 1000 {
		if w := (call{request: "GET /v1/items", headers: []string{fmt.Sprint("X-API-Key: made-up-", n)}}).send(api); w.Code != http.StatusUnauthorized {
			t.Fatalf("status %d", w.Code)
		}
	}
	weblimittest.Denied(t, call{request: "GET /v1/items", headers: []string{"X-API-Key: one"}}.send(api), "address")
	if keys := store.Keys(); len(keys) != 1 {
		t.Errorf("the store has %q", keys)
	}
}

func newAPI(t *testing.T, store core.Store) http.Handler {
	t.Helper()
	api, err := New(Config{Store: store, BypassToken: token, Plans: Plans, Keys: Keys})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// call is a request that passes so many times, and is then denied by a limit if there is one.
type call struct {
	name, request string
	headers       []string // name: value
	passes        int
	limit         string
}

var calls = []call{
	{"five logins", "POST /login", nil, 5, "login"},
	{"three codes", "POST /otp", nil, 3, "otp"},
	{"ten uploads at once", "POST /uploads", []string{"Authorization: Bearer alice"}, 10, "uploads"},
	{"300 mutations a minute", "POST /articles", []string{"Authorization: Bearer alice"}, 300, "mutations"},
	{"20 questions", "POST /ai", []string{"Authorization: Bearer alice"}, 20, "ai"},
	{"30 anonymous searches", "GET /search", nil, 30, "anonymous-search"},
	{"searches of those we know", "GET /search", []string{"Authorization: Bearer bob"}, 100, ""},
	{"two exports a second", "GET /v1/export", []string{"X-API-Key: one"}, 2, "key-export"},
	{"ten searches a second", "GET /v1/search", []string{"X-API-Key: two"}, 10, "key-search"},
	{"60 items a second", "GET /v1/items", []string{"X-API-Key: three"}, 60, "key"},
	{"the free plan", "GET /app/report", []string{"Authorization: Bearer alice"}, 60, "plan"},
	{"the basic plan", "GET /app/report", []string{"Authorization: Bearer bob"}, 600, "plan"},
	{"health checks", "GET /healthz", nil, 100, ""},
	{"the monitoring", "POST /login", []string{"X-Bypass-Token: " + token}, 100, ""},
	{"a guess at the token", "POST /login", []string{"X-Bypass-Token: guess"}, 5, "login"},
	{"a provider's webhooks", "POST /webhooks/pay", []string{"from: 192.0.2.9"}, 100, ""},
}

func (c call) send(api http.Handler) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(c.request, " ")
	r := httptest.NewRequest(method, path, http.NoBody)
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
	return w
}
