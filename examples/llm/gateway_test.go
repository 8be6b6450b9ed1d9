package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/llmlimit"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/weblimittest"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

// serve starts the gateway in front of a model.
func serve(t *testing.T, store core.Store, model http.Handler) *httptest.Server {
	t.Helper()
	origin := httptest.NewServer(model)
	t.Cleanup(origin.Close)
	to := must.Get(url.Parse(origin.URL))(t)
	server := httptest.NewServer(must.Get(newGateway(store, provider{to, "openai-key"}, provider{to, "anthropic-key"}))(t))
	t.Cleanup(server.Close)
	return server
}

// ask asks a question with a key, and returns the status, the tokens that are left, and the answer as far as it came.
func ask(t *testing.T, server *httptest.Server, key, path, fields, text string) (status int, left int64, answer string) {
	t.Helper()
	body := fmt.Sprintf(`{%s,"messages":[{"role":"user","content":%s}]}`, fields, quote(text))
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body)))(t)
	r.Header.Set("Authorization", "Bearer "+key)
	res := must.Get(server.Client().Do(r))(t)
	got, _ := io.ReadAll(res.Body) // an answer may be cut
	_ = res.Body.Close()
	header := res.Header.Get("X-Ratelimit-Remaining-Tokens") + res.Header.Get("Anthropic-Ratelimit-Tokens-Remaining")
	left, _ = strconv.ParseInt(header, 10, 64)
	return res.StatusCode, left, string(got)
}

const (
	chats = "/v1/chat/completions"
	mini  = `"model":"gpt-4o-mini","max_tokens":1000`
)

// settled waits until alice has used so many tokens of a model.
func settled(t *testing.T, store core.Store, model string, want int64) {
	t.Helper()
	limit := core.PerMinute(20_000).By(keyfuncs.User(customerKey{}), keyfuncs.Custom("model", func(keyfuncs.Request) string { return model })).Named("tokens")
	limiter := core.ForLimits(store, []core.Limit{limit})
	wait.For(t, "the call is settled, in the background", func() error {
		d, err := limiter.Peek(t.Context(), keyfuncs.EncodeJoin(keyfuncs.Encode("user", "alice"), keyfuncs.Encode("model", model)), 0)
		if err != nil {
			return err
		}
		if tokens, _ := d.Binding(); tokens.Remaining != 20_000-want {
			return fmt.Errorf("%d tokens are left, want %d used", tokens.Remaining, want)
		}
		return nil
	})
}

func TestCallsCostWhatTheyUse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path, fields, end string
		used              int64
	}{
		"chat":               {chats, mini, `"total_tokens":15}}`, 15},
		"chat, streamed":     {chats, mini + `,"stream":true`, "[DONE]\n\n", 15},
		"messages":           {"/v1/messages", `"model":"claude-haiku-4-5","max_tokens":1000`, `"output_tokens":10}}`, 15},
		"messages, streamed": {"/v1/messages", `"model":"claude-haiku-4-5","max_tokens":1000,"stream":true`, "message_stop\"}\n\n", 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := weblimittest.New(t) // whose clock stands still, so that no tokens come back
			server := serve(t, store, fakeModel())
			status, left, answer := ask(t, server, "demo", tt.path, tt.fields, "Why is the sky blue?")
			check.Equal(t, "status", status, 200)
			check.Equal(t, "how it ends", answer[len(answer)-len(tt.end):], tt.end)
			if left > 19_000 {
				t.Errorf("%d tokens are left while 1000 are reserved", left)
			}
			model := "gpt-4o-mini*"
			if tt.path != chats {
				model = "claude-haiku-4-5*"
			}
			settled(t, store, model, tt.used)
		})
	}
}

// All limits hold on each store.
func TestAQuestionThatIsTooLong(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		server := serve(t, store, fakeModel())
		status, _, answer := ask(t, server, "demo", chats, mini, strings.Repeat("why ", 20_000))
		check.Equal(t, "status", status, http.StatusTooManyRequests)
		check.Contains(t, "answer", answer, `"code":"rate_limit_exceeded"`)
		status, _, answer = ask(t, server, "demo", "/v1/messages", `"model":"claude-haiku-4-5"`, strings.Repeat("why ", 20_000))
		check.Equal(t, "status", status, http.StatusTooManyRequests)
		check.Contains(t, "answer", answer, `"type":"rate_limit_error"`)
	})
}

// A model that fails in the middle of its answer: the estimate of what it had not told.
func TestAnswersThatAreCut(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	server := serve(t, store, fakeModel())
	fields := mini + `,"stream":true`
	status, _, answer := ask(t, server, "demo", chats, fields, "why fail")
	check.Equal(t, "status", status, 200)
	if strings.Contains(answer, "[DONE]") || !strings.Contains(answer, "why") {
		t.Errorf("answer: %s", answer)
	}
	body := int64(len(`{,"messages":[{"role":"user","content":"why fail"}]}`) + len(fields))
	settled(t, store, "gpt-4o-mini*", (body+1)/2+1000)
}

// Customers send the gateway's keys, and providers get their own.
func TestKeysStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	var seen []string
	server := serve(t, weblimittest.New(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization")+"|"+r.Header.Get("X-Api-Key"))
		w.Header().Set("X-Ratelimit-Remaining-Tokens", "150000000") // of the gateway's account
		w.WriteHeader(http.StatusTeapot)
	}))
	_, left, _ := ask(t, server, "demo", chats, mini, "why")
	ask(t, server, "demo", "/v1/messages", mini, "why")
	check.Slices(t, "keys", seen, []string{"Bearer openai-key|", "|anthropic-key"})
	if left > 20_000 {
		t.Errorf("a customer sees the account of the gateway: %d tokens", left)
	}
	for _, key := range []string{"", "made-up", "alice"} {
		status, _, _ := ask(t, server, key, chats, mini, "why")
		check.Equal(t, "status of key "+key, status, http.StatusUnauthorized)
	}
	check.Equal(t, "calls", len(seen), 2)
}

// The plan pays, then credits do; then nobody.
func TestPlanThenCredits(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	server := serve(t, store, fakeModel())
	for _, step := range []struct {
		usedUp string
		status int
		answer string
	}{{"", 200, "You asked"}, {"plan", 200, "You asked"}, {"credits", 429, `"code":"insufficient_quota"`}} {
		if step.usedUp != "" {
			store.Exhaust(step.usedUp, keyfuncs.Encode("user", "alice"))
		}
		status, _, answer := ask(t, server, "demo", chats, mini, "why")
		check.Equal(t, "status, with "+step.usedUp+" used up", status, step.status)
		check.Contains(t, "answer, with "+step.usedUp+" used up", answer, step.answer)
	}
}

// Customers who try it leave a quarter of the account to those who pay. The account's limit is asked by itself, since no
// customer can use it up alone.
func TestPriority(t *testing.T) {
	t.Parallel()
	meter := llmlimit.Must(llmlimit.New(llmlimit.Config{Prices: must.Get(llmlimit.ReadPrices(bytes.NewReader(priceFile)))(t)}))
	limits := customerLimits(meter)
	account := nethttp.Limit(weblimittest.New(t), limits[len(limits)-1])(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	call := func(key string, tokens int) int {
		r := httptest.NewRequest(http.MethodPost, chats, strings.NewReader(fmt.Sprintf(`{"model":"m","max_tokens":4000,"n":%d}`, tokens/4000)))
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		authenticate(meter.Read(account)).ServeHTTP(w, r)
		return w.Code
	}
	check.Equal(t, "a first call", call("trial", 280_000), 200) // what it reserves stays charged, as nobody tells what it used
	check.Equal(t, "one that tries it, beyond three quarters", call("trial", 40_000), http.StatusTooManyRequests)
	check.Equal(t, "one that pays", call("demo", 40_000), 200)
	check.Equal(t, "beyond all", call("demo", 100_000), http.StatusTooManyRequests)
}
