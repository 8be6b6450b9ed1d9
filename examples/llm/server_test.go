package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/limittest"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

func TestAnswersCostWhatTheyAre(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		server := httptest.NewServer(newServer(store))
		t.Cleanup(server.Close)
		ask := func(question, tokens string) (status int, left string) {
			r, err := http.NewRequest("POST", server.URL+"/generate?max_tokens="+tokens, strings.NewReader(question))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-API-Key", "demo")
			res, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			return res.StatusCode, res.Header.Get("Ratelimit")
		}
		// What was charged for a start is given back. The bucket would take 24 seconds
		// to regain it by itself.
		full := func(what string) {
			t.Helper()
			for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
				_, left := ask("fail", "1")
				if strings.HasPrefix(left, `"tokens";r=9999;`) {
					return
				}
				if time.Since(start) > 15*time.Second {
					t.Fatalf("%s: %q, want it given back", what, left)
				}
			}
		}
		if status, left := ask("Why is the sky blue?", "4000"); status != 200 || !strings.HasPrefix(left, `"tokens";r=6000;`) {
			t.Errorf("status %d, RateLimit %q; want 4000 of 10,000 charged", status, left)
		}
		full("an answer of ten tokens")
		if status, _ := ask("fail", "4000"); status != http.StatusBadGateway {
			t.Errorf("status %d, want the model's error", status)
		}
		full("a failure")
	})
}
