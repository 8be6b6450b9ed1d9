package llmlimit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/weblimittest"
)

// answering returns a handler with limits on a store whose clock stands still. Its requests use up their estimates.
func answering(t testing.TB, store core.Store, limits func(*Meter) []core.Limit) http.Handler {
	t.Helper()
	m := must.Get(New(Config{Prices: pricesOf(t)}))(t)
	settings := nethttp.With(core.Config{Store: store, HeadersWhen: core.Never}, nethttp.Config{Denied: m.Denied})
	return m.Read(settings.Limit(limits(m)...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := core.FromContext(r.Context())
		m.SetHeaders(w.Header(), APIOf(r.URL.Path), d)
	})))
}

func everyone(l core.Limit) core.Limit { return l.By(keyfuncs.Everyone()) }

func serve(handler http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, posted(path, body))
	return w
}

// headersOf returns the headers of an answer that tell of limits, in the order of names.
func headersOf(w *httptest.ResponseRecorder, names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%s", w.Header().Values(name)))
	}
	return strings.Join(all, " ")
}

func TestHeadersOfEachProvider(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	handler := answering(t, store, func(m *Meter) []core.Limit {
		return []core.Limit{
			m.Limit("requests", Requests, everyone(core.PerMinute(50))),
			m.Limit("tokens", Tokens, everyone(core.Per(100_000, time.Minute))),
			m.Limit("day", Tokens, everyone(core.PerDay(1_000_000).FixedWindow())), // has more left
			m.Limit("input", InputTokens, everyone(core.PerMinute(80_000))),
			m.Limit("output", OutputTokens, everyone(core.PerMinute(20_000))),
			m.Limit("money", Money, everyone(core.PerMinute(1_000_000))), // has no header
			m.Limit("hidden", Tokens, everyone(core.PerMinute(90_000))).Hidden(),
			m.Limit("shadow", Tokens, everyone(core.PerMinute(10))).Shadow(),
			everyone(core.PerMinute(3)).Named("another"), // none of the meter's
		}
	})
	const body = `{"max_tokens":82}` // 17 of input
	w := serve(handler, chatPath, body)
	check.Equal(t, "OpenAI", headersOf(w,
		"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests",
		"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"),
		"[50] [49] [1.2s] [100000] [99901] [60ms]")
	w = serve(handler, "/v1/messages", body)
	at := func(d time.Duration) string { return store.Now().Add(d).Truncate(time.Second).Format(time.RFC3339) }
	check.Equal(t, "Anthropic", headersOf(w,
		"Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset",
		"Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset",
		"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Remaining"),
		"[50] [48] ["+at(3400*time.Millisecond)+"] [100000] [99802] ["+at(time.Second+119*time.Millisecond)+"] [79966] [19836]")
	w = serve(handler, "/v1beta/models/m:generateContent", body)
	check.Equal(t, "Gemini", len(w.Header()), 0)
}

// A choice shows the limit that has paid.
func TestHeadersOfAChoice(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	handler := answering(t, store, func(m *Meter) []core.Limit {
		return []core.Limit{core.First(
			m.Limit("plan", Tokens, everyone(core.PerHour(100).FixedWindow())), m.Limit("credits", Tokens, everyone(core.PerDay(150).FixedWindow())))}
	})
	const body = `{"max_tokens":53}` // 70 tokens
	for _, want := range []string{"200 [100] [30]", "200 [150] [80]", "200 [150] [10]", "429 [100] [30]"} {
		w := serve(handler, chatPath, body)
		got := fmt.Sprint(w.Code, " ", headersOf(w, "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens"))
		check.Equal(t, "status and headers", got, want)
	}
}

func TestDenialsInTheFormOfEachProvider(t *testing.T) {
	t.Parallel()
	seconds := func(s string) string { return `Rate limit exceeded. Retry in ` + s + ` seconds.` }
	for name, tt := range map[string]struct {
		path   string
		limits func(*Meter) core.Limit
		code   int
		retry  string // Retry-After, retry-after-ms, x-should-retry
		body   string
	}{
		"OpenAI, tokens": {
			chatPath, func(m *Meter) core.Limit { return m.Limit("l", Tokens, everyone(core.PerMinute(100))) }, 429, "[30] [30000] []",
			`{"error":{"message":"` + seconds("30") + `","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`,
		},
		"OpenAI, requests": {
			chatPath, func(m *Meter) core.Limit { return m.Limit("l", Requests, everyone(core.PerHour(1))) }, 429, "[3600] [3600000] [false]",
			`{"error":{"message":"` + seconds("3600") + `","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
		},
		"OpenAI, money": {
			chatPath, func(m *Meter) core.Limit { return m.Limit("l", Money, everyone(core.PerHour(50))).Hidden() }, 429, "[432] [432000] [false]",
			`{"error":{"message":"` + seconds("432") + `","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
		},
		"OpenAI, a plan's end": {
			chatPath, func(m *Meter) core.Limit { return m.Limit("l", Money, everyone(core.PerHour(50))).Status(402) }, 402, "[432] [] []",
			`{"error":{"message":"` + seconds("432") + `","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
		},
		"Anthropic": {
			"/v1/messages", func(m *Meter) core.Limit { return m.Limit("l", Tokens, everyone(core.PerMinute(100))) }, 429, "[30] [30000] []",
			`{"type":"error","error":{"type":"rate_limit_error","message":"` + seconds("30") + `"}}`,
		},
		"Gemini": {
			"/v1beta/models/m:generateContent", func(m *Meter) core.Limit { return m.Limit("l", Tokens, everyone(core.PerMinute(100))) }, 429, "[30] [30000] []",
			`{"error":{"code":429,"message":"` + seconds("30") + `","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"30s"}]}}`,
		},
		"Bedrock": {
			"/model/m/converse", func(m *Meter) core.Limit { return m.Limit("l", Tokens, everyone(core.PerMinute(100))) }, 429, "[30] [30000] []",
			`{"message":"` + seconds("30") + `"}`,
		},
		"never": {
			chatPath, func(m *Meter) core.Limit { return m.Limit("l", Tokens, everyone(core.PerMinute(60))) }, 429, "[] [] [false]",
			`{"error":{"message":"The request costs more than the limit ever allows.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := answering(t, weblimittest.New(t), func(m *Meter) []core.Limit { return []core.Limit{tt.limits(m)} })
			var w *httptest.ResponseRecorder
			for range 2 { // of 39 and 36 tokens, which cost 28
				w = serve(handler, tt.path, `{"model":"gpt-4o-mini","max_tokens":36}`)
			}
			check.Equal(t, "status", w.Code, tt.code)
			check.Equal(t, "headers", headersOf(w, "Retry-After", "Retry-After-Ms", "X-Should-Retry"), tt.retry)
			check.Equal(t, "body", w.Body.String(), tt.body)
			check.Equal(t, "Content-Type", w.Header().Get("Content-Type"), "application/json")
			check.Equal(t, "Cache-Control", w.Header().Get("Cache-Control"), "no-store")
			if name == "Bedrock" {
				check.Equal(t, "X-Amzn-Errortype", w.Header().Get("X-Amzn-Errortype"), "ThrottlingException")
			}
		})
	}
}
