package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
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
		// A busy machine may take as long: then it is asked again.
		givenBack := func(what string, charge func()) {
			t.Helper()
			for tries := 1; ; tries++ {
				charge()
				start := time.Now()
				wait.Until(t, what+" is given back", func() bool {
					_, left := ask("fail", "1")
					return strings.Contains(left, `"tokens";r=9999;`)
				})
				if took := time.Since(start); took < 15*time.Second {
					return
				} else if tries == 5 {
					t.Fatalf("%s: given back after %v", what, took)
				}
			}
		}
		want := `"tokens";r=6000;`
		givenBack("an answer of ten tokens", func() {
			if status, left := ask("Why is the sky blue?", "4000"); status != 200 || !strings.Contains(left, want) {
				t.Errorf("status %d, RateLimit %q; want 4000 of 10,000 charged", status, left)
			}
			want = `"tokens";r=` // the bucket was full the first time only
		})
		givenBack("a failure", func() {
			if status, _ := ask("fail", "4000"); status != http.StatusBadGateway {
				t.Errorf("status %d, want the model's error", status)
			}
		})
	})
}

// A model that fails in the middle of its answer, and a client that hangs up there, cost what was
// spent until then: neither the estimate nor nothing.
func TestAnswersThatEndEarly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		question string
		hangUp   bool
		from, to int64 // tokens that it costs
	}{
		"the model fails":     {"why fail " + strings.Repeat("why ", 2000), false, 2002 + 3, 2002 + 3},
		"the client hangs up": {strings.Repeat("why ", 1000), true, 1000 + 1, 2*1000 + 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := weblimittest.New(t) // whose clock stands still, so that no tokens come back
			server := httptest.NewServer(newServer(store))
			t.Cleanup(server.Close)
			r, err := http.NewRequest("POST", server.URL+"/generate?max_tokens=4000", strings.NewReader(tt.question))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-API-Key", "demo")
			res, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if tt.hangUp {
				_, err = io.ReadFull(res.Body, make([]byte, 3))
			} else if _, err = io.ReadAll(res.Body); err != nil {
				err = nil // the answer was cut
			} else {
				err = io.EOF
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK || err != nil {
				t.Fatalf("status %d, %v", res.StatusCode, err)
			}
			limiter := core.ForLimits(store, []core.Limit{core.PerMinute(10_000).By(keyfuncs.User(customerKey{})).Named("tokens")})
			wait.For(t, "the rest is given back, in the background", func() error {
				d, err := limiter.Peek(t.Context(), keyfuncs.Encode("user", "alice"), 0)
				if err != nil {
					return err
				}
				left, _ := d.Binding()
				if left.Remaining < 10_000-tt.to || left.Remaining > 10_000-tt.from {
					return fmt.Errorf("%d tokens are left, want %d to %d charged", left.Remaining, tt.from, tt.to)
				}
				return nil
			})
		})
	}
}

// The client understates the tokens of its answer: the question is long, and the answer
// repeats it. All requests together still stay within the limit.
func TestNoMoreIsGeneratedThanWasCharged(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("why ", 10_000)
	for name, c := range map[string]struct {
		question string
		query    string
	}{
		"one token for a long question":    {long, "?max_tokens=1"},
		"a few for a short one":            {strings.Repeat("why ", 90), "?max_tokens=100"},
		"as many as fit, and more":         {strings.Repeat("why ", 3900), "?max_tokens=4000"},
		"more than there are":              {long, "?max_tokens=9223372036854775807"},
		"more than can be read":            {strings.Repeat("why ", 300), "?max_tokens=99999999999999999999"},
		"fewer than none":                  {strings.Repeat("why ", 300), "?max_tokens=-5"},
		"two numbers, the small one first": {strings.Repeat("why ", 3900), "?max_tokens=1&max_tokens=4000"},
		"two numbers, the large one first": {strings.Repeat("why ", 3900), "?max_tokens=4000&max_tokens=1"},
		"no number":                        {strings.Repeat("why ", 300), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(newServer(weblimittest.New(t)))
			t.Cleanup(server.Close)
			var generated atomic.Int64
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() {
					for range 20 {
						r, err := http.NewRequest("POST", server.URL+"/generate"+c.query, strings.NewReader(c.question))
						if err != nil {
							t.Error(err)
							return
						}
						r.Header.Set("X-API-Key", "demo")
						res, err := server.Client().Do(r)
						if err != nil {
							t.Error(err)
							return
						}
						answer, _ := io.ReadAll(res.Body)
						_ = res.Body.Close()
						if res.StatusCode == http.StatusOK {
							generated.Add(int64(len(strings.Fields(string(answer)))) + int64(len(strings.Fields(c.question))))
						}
					}
				})
			}
			clients.Wait()
			if got := generated.Load(); got > 10_000 {
				t.Errorf("%d tokens of questions and answers, of 10,000 a minute", got)
			}
		})
	}
}

// Unknown keys have no tokens.
func TestMadeUpKeys(t *testing.T) {
	t.Parallel()
	server := newServer(core.NewMemory())
	for _, keys := range [][]string{nil, {""}, {"made-up"}, {"demo", "other"}} {
		r := httptest.NewRequest("POST", "/generate", strings.NewReader("Why?"))
		r.Header["X-Api-Key"] = keys
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("keys %q: status %d", keys, w.Code)
		}
	}
}
