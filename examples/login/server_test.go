package main

import (
	"encoding/json"
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
		engine, limiter := newServer(store)
		server := httptest.NewServer(engine)
		t.Cleanup(server.Close)
		do := func(method, path, body string) (status int, answer []byte) {
			t.Helper()
			r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
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
			if status, _ := do("POST", "/login", "password="+password); status != want {
				t.Errorf("%s: status %d, want %d", what, status, want)
			}
		}
		problem := func() (kind string) {
			var body struct{ Type string }
			_, answer := do("POST", "/login", "password=wrong")
			if err := json.Unmarshal(answer, &body); err != nil {
				t.Error(err)
			}
			_, kind, _ = strings.Cut(body.Type, "#")
			return kind
		}
		for range 20 {
			logIn("a login that succeeds", "opensesame", http.StatusOK)
			if err := limiter.Drain(t.Context()); err != nil { // it is given back in the background
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
