package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/weblimittest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	os.Exit(limittest.Main(m))
}

func TestLogin(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		engine, limits := newServer(store)
		do := func(method, path, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.SetBasicAuth("admin", "admin")
			w := httptest.NewRecorder()
			engine.ServeHTTP(w, r)
			return w
		}
		logIn := func(what, password string, want int) {
			t.Helper()
			if w := do("POST", "/login", form("alice", password)); w.Code != want {
				t.Errorf("%s: status %d, want %d", what, w.Code, want)
			}
		}
		denied := func(kind string) {
			t.Helper()
			w := do("POST", "/login", form("alice", "wrong"))
			weblimittest.Denied(t, w, "login")
			if !strings.Contains(w.Body.String(), "#"+kind) {
				t.Errorf("a denial of another type than %s: %s", kind, w.Body)
			}
		}
		for range 20 {
			logIn("a login that succeeds", "opensesame", http.StatusOK)
			if err := limits.Drain(t.Context()); err != nil { // it is given back in the background
				t.Fatal(err)
			}
		}
		for range 5 {
			logIn("one of five failures", "wrong", http.StatusUnauthorized)
		}
		logIn("after them", "opensesame", http.StatusTooManyRequests)
		denied("quota-exceeded")
		denied("abnormal-usage-detected") // the third denial
		var blocks []struct {
			Limit, Key string
			Until      time.Time
		}
		if err := json.Unmarshal(do("GET", "/blocks", "").Body.Bytes(), &blocks); err != nil {
			t.Fatal(err)
		}
		// The quarter of an hour lasts longer than the block.
		if len(blocks) != 1 || blocks[0].Limit != "login" || blocks[0].Key != "ip:192.0.2.1" || time.Until(blocks[0].Until) > 10*time.Minute {
			t.Fatalf("blocks: %+v", blocks)
		}
		if w := do("DELETE", "/blocks/"+blocks[0].Key, ""); w.Code != http.StatusNoContent {
			t.Errorf("lifting: status %d", w.Code)
		}
		denied("quota-exceeded") // and no longer blocked
	})
}

func form(name, password string) string {
	return fmt.Sprintf(`{"name": %q, "password": %q}`, name, password)
}

// An attacker with many addresses gets ten wrong passwords per account, however the name is
// spelled. Logins that succeed cost nothing.
func TestFailuresOfAnAccountFromManyAddresses(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		engine, limits := newServer(store)
		logIn := func(n int, name, password string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form(name, password)))
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", n)
			w := httptest.NewRecorder()
			engine.ServeHTTP(w, r)
			if err := limits.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			return w
		}
		for n := range 20 {
			if w := logIn(n, "alice", "opensesame"); w.Code != http.StatusOK {
				t.Fatalf("a login that succeeds: %d", w.Code)
			}
		}
		tried := 0
		for n := range 40 {
			if logIn(n, []string{"alice", "Alice", "ALICE"}[n%3], "wrong").Code == http.StatusUnauthorized {
				tried++
			}
		}
		if tried != 10 {
			t.Errorf("%d wrong passwords of one account were tried, want 10", tried)
		}
		w := logIn(99, "alice", "opensesame")
		weblimittest.Denied(t, w, "account")
		weblimittest.RetryAfter(t, w)
		weblimittest.Remaining(t, w, "account", 0)
		weblimittest.Allowed(t, logIn(100, "bob", "opensesame")) // another account
	})
}
