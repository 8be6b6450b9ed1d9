package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func TestAnswersCostWhatTheyAre(t *testing.T) {
	t.Parallel()
	for name, newStore := range map[string]func(*testing.T) core.Store{
		"memory": func(*testing.T) core.Store { return core.NewMemory() },
		"Redis": func(t *testing.T) core.Store {
			return redisstore.New(redistest.Shared(t).Client(t), redisstore.Prefix(redistest.Prefix(t)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(newServer(newStore(t)))
			t.Cleanup(server.Close)
			ask := func(question, max string) *http.Response {
				r, err := http.NewRequest("POST", server.URL+"/generate?max_tokens="+max, strings.NewReader(question))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-API-Key", "demo")
				res, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				return res
			}
			// What was charged for a start is given back. The bucket would take 24 seconds
			// to regain it by itself.
			full := func(what string) {
				t.Helper()
				for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
					if res := ask("fail", "1"); strings.HasPrefix(res.Header.Get("Ratelimit"), `"tokens";r=9999;`) {
						return
					} else if time.Since(start) > 15*time.Second {
						t.Fatalf("%s: %q, want it given back", what, res.Header.Get("Ratelimit"))
					}
				}
			}
			if res := ask("Why is the sky blue?", "4000"); res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Ratelimit"), `"tokens";r=6000;`) {
				t.Errorf("status %d, RateLimit %q; want 4000 of 10,000 charged", res.StatusCode, res.Header.Get("Ratelimit"))
			}
			full("an answer of ten tokens")
			if res := ask("fail", "4000"); res.StatusCode != http.StatusBadGateway {
				t.Errorf("status %d, want the model's error", res.StatusCode)
			}
			full("a failure")
		})
	}
}
