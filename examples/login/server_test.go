package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	os.Exit(limittest.Main(m))
}

func TestLogin(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		engine, limits := newServer(store)
		server := httptest.NewServer(engine)
		t.Cleanup(server.Close)
		do := func(method, path, body string) (status int, answer []byte) {
			t.Helper()
			r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.SetBasicAuth("admin", "admin")
			res, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			answer, err = io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, answer
		}
		logIn := func(what, password string, want int) {
			t.Helper()
			if status, _ := do("POST", "/login", form("alice", password)); status != want {
				t.Errorf("%s: status %d, want %d", what, status, want)
			}
		}
		problem := func() (kind string) {
			var body struct{ Type string }
			_, answer := do("POST", "/login", form("alice", "wrong"))
			if err := json.Unmarshal(answer, &body); err != nil {
				t.Error(err)
			}
			_, kind, _ = strings.Cut(body.Type, "#")
			return kind
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
		if kind := problem(); kind != "quota-exceeded" {
			t.Errorf("the second denial is of type %s", kind)
		}
		if kind := problem(); kind != "abnormal-usage-detected" {
			t.Errorf("the third denial is of type %s", kind)
		}
		var blocks []struct {
			Limit, Key string
			Until      time.Time
		}
		_, list := do("GET", "/blocks", "")
		if err := json.Unmarshal(list, &blocks); err != nil {
			t.Fatal(err)
		}
		// The quarter of an hour lasts longer than the block.
		if len(blocks) != 1 || blocks[0].Limit != "login" || blocks[0].Key != "ip:127.0.0.1" || time.Until(blocks[0].Until) > 10*time.Minute {
			t.Fatalf("blocks: %+v", blocks)
		}
		if status, _ := do("DELETE", "/blocks/"+blocks[0].Key, ""); status != http.StatusNoContent {
			t.Errorf("lifting: status %d", status)
		}
		if kind := problem(); kind != "quota-exceeded" {
			t.Errorf("after the block was lifted a denial is of type %s", kind)
		}
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
		if h := w.Header(); w.Code != http.StatusTooManyRequests || h.Get("Retry-After") == "" || !strings.Contains(h.Get("RateLimit"), `"account";r=0`) {
			t.Errorf("after them: %d, %v", w.Code, h)
		}
		if w := logIn(100, "bob", "opensesame"); w.Code != http.StatusOK {
			t.Errorf("another account: %d", w.Code)
		}
	})
}
