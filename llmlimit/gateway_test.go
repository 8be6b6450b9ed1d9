package llmlimit

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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

const testPrices = `{"currency":"USD","models":[
	{"model":"gpt-4o*","input":2500000,"cache_read":1250000,"output":10000000,"max_output":16384},
	{"model":"gpt-4o-mini*","input":150000,"cache_read":75000,"output":600000},
	{"model":"claude-sonnet-4*","input":3000000,"cache_read":300000,"cache_write":3750000,"cache_write_hour":6000000,"output":15000000}]}`

func pricesOf(t testing.TB) *Prices { return must.Get(ReadPrices(strings.NewReader(testPrices)))(t) }

// lot is the quota of each limit in these tests, of which nothing is regained: the clock of the store stands still.
const lot = 1_000_000_000

// gateway is a proxy with limits in front of an upstream.
type gateway struct {
	t       testing.TB
	meter   *Meter
	store   *weblimittest.Store
	limiter *core.Limiter
	*httptest.Server
}

// newGateway begins a gateway. The upstream's answers are trusted if trust says so.
func newGateway(t testing.TB, config Config, trust bool, upstream http.HandlerFunc) *gateway {
	t.Helper()
	origin := httptest.NewServer(upstream)
	t.Cleanup(origin.Close)
	to := must.Get(url.Parse(origin.URL))(t)
	if trust {
		config.Trust = []string{to.Host}
	}
	g := &gateway{t: t, meter: must.Get(New(config))(t), store: weblimittest.New(t)}
	limits := []core.Limit{
		g.meter.Limit("requests", Requests, core.PerHour(lot).By(keyfuncs.Everyone())),
		g.meter.Limit("tokens", Tokens, core.PerHour(lot).By(keyfuncs.Everyone())),
		g.meter.Limit("input", InputTokens, core.PerHour(lot).By(keyfuncs.Everyone())),
		g.meter.Limit("output", OutputTokens, core.PerHour(lot).By(keyfuncs.Everyone())),
	}
	if config.Prices != nil {
		limits = append(limits, g.meter.Limit("money", Money, core.PerHour(lot).By(keyfuncs.Everyone())))
	}
	g.limiter = core.ForLimits(g.store, limits)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: g.meter.Transport(nil),
	}
	g.Server = httptest.NewServer(g.meter.Read(nethttp.New(g.limiter, nethttp.Config{Denied: g.meter.Denied})(proxy)))
	t.Cleanup(g.Close)
	return g
}

// used returns what limits have charged.
func (g *gateway) used() map[string]int64 {
	g.t.Helper()
	d := must.Get(g.limiter.Peek(context.Background(), "all", 0))(g.t)
	used := map[string]int64{}
	for _, r := range d.Results() {
		used[r.Rule.Name] = r.Rule.Burst - r.Remaining
	}
	return used
}

// charges ends the gateway, and compares what limits have charged: requests, tokens, input, output and money.
func (g *gateway) charges(what string, want ...int64) {
	g.t.Helper()
	g.Close() // which waits for requests under way
	check.OK(g.t, g.limiter.Drain(g.t.Context()))
	used := g.used()
	for i, name := range []string{"requests", "tokens", "input", "output", "money"} {
		if i < len(want) {
			check.Equal(g.t, what+": "+name, used[name], want[i])
		}
	}
}

// post sends a request, and returns status and body of the answer.
func (g *gateway) post(path, body string) (status int, text string) {
	g.t.Helper()
	res := must.Get(http.Post(g.URL+path, jsonType, strings.NewReader(body)))(g.t)
	answer, err := io.ReadAll(res.Body)
	check.OK(g.t, err)
	check.OK(g.t, res.Body.Close())
	return res.StatusCode, string(answer)
}

// play returns an upstream that answers with a recording, its first part in a write of its own.
func play(rec recording, cut int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for name, values := range rec.headers() {
			w.Header()[name] = values
		}
		_, _ = io.WriteString(w, rec.body[:cut])
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, rec.body[cut:])
	}
}

func TestAGatewayChargesWhatWasUsed(t *testing.T) {
	t.Parallel()
	for name, rec := range recordings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, Config{}, true, play(rec, len(rec.body)/2))
			status, text := g.post(rec.path, `{"model":"m","max_tokens":700,"messages":[]}`)
			check.Equal(t, "status", status, 200)
			check.Equal(t, "the body", text, rec.body)
			g.charges("what was told", 1, rec.told.Total(), rec.told.Input, rec.told.Output)
		})
	}
}

// The estimate is reserved while a call runs, and an answer that tells nothing costs it.
func TestAnAnswerThatTellsNothingCostsItsEstimate(t *testing.T) {
	t.Parallel()
	const body = `{"model":"gpt-4o-mini","max_tokens":700,"messages":[]}`
	estimate := []int64{1, int64(len(body)) + 700, int64(len(body)), 700, (int64(len(body))*150000 + 700*600000 + 999999) / 1e6}
	for name, upstream := range map[string]http.HandlerFunc{
		"a stream without usage": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, data(`{"choices":[{"delta":{"content":"Hi"}}]}`, `[DONE]`))
		},
		"compressed all the same": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, recordings["OpenAI chat"].body)
			_ = z.Close()
		},
		"another type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, recordings["OpenAI chat"].body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var during map[string]int64
			var g *gateway
			g = newGateway(t, Config{Prices: pricesOf(t)}, true, func(w http.ResponseWriter, r *http.Request) {
				during = g.used()
				upstream(w, r)
			})
			g.post("/v1/chat/completions", body)
			check.Equal(t, "tokens reserved", during["tokens"], estimate[1])
			check.Equal(t, "money reserved", during["money"], estimate[4])
			g.charges("the estimate", estimate...)
		})
	}
}

// Without trust, usage can raise a charge, and never lower it.
func TestAnUpstreamThatIsNotTrusted(t *testing.T) {
	t.Parallel()
	const body = `{"model":"gpt-4o-mini","max_tokens":700,"messages":[]}`
	input := int64(len(body))
	for name, tt := range map[string]struct {
		usage         string
		status        int
		input, output int64
	}{
		"less":            {`{"prompt_tokens":1,"completion_tokens":1}`, 200, input, 700},
		"nothing":         {`{"prompt_tokens":0,"completion_tokens":0}`, 200, input, 700},
		"negative":        {`{"prompt_tokens":-1000,"completion_tokens":-1000}`, 200, input, 700},
		"more of one":     {`{"prompt_tokens":1000,"completion_tokens":1}`, 200, 1000, 700},
		"more of both":    {`{"prompt_tokens":1000,"completion_tokens":1001}`, 200, 1000, 1001},
		"all cached":      {fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":700,"prompt_tokens_details":{"cached_tokens":%d}}`, input, input), 200, input, 700},
		"a failure":       {`{}`, 500, input, 700},
		"more in failure": {`{"prompt_tokens":1000,"completion_tokens":1001}`, 400, 1000, 1001},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, Config{Prices: pricesOf(t)}, false, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", jsonType)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, `{"usage":`+tt.usage+`}`)
			})
			g.post("/v1/chat/completions", body)
			g.charges("at least the estimate", 1, tt.input+tt.output, tt.input, tt.output, (tt.input*150000+tt.output*600000+999999)/1e6)
		})
	}
}

// An error of a trusted upstream costs nothing, unless it tells what it has used.
func TestAFailureOfATrustedUpstream(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want int64
	}{
		"that tells nothing": {`{"error":{"message":"no"}}`, 0},
		"that tells":         {`{"error":{"message":"no"},"usage":{"prompt_tokens":12,"completion_tokens":3}}`, 15},
	} {
		g := newGateway(t, Config{}, true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, tt.body)
		})
		g.post("/v1/chat/completions", `{"model":"m"}`)
		g.charges("an answer "+name, 1, tt.want)
	}
}

// A client that hangs up pays what was told until then, and the estimate of what was not.
func TestStreamsThatAreCut(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","max_tokens":700,"stream":true}`
	for name, tt := range map[string]struct {
		rec           string
		behind        string // where the client hangs up
		input, output int64
	}{
		"OpenAI, before usage":              {"OpenAI chat, streamed", `"role":"assistant"`, int64(len(body)), 700},
		"Anthropic, behind its beginning":   {"Anthropic, streamed", "event: ping", 36, 700},
		"Anthropic, behind its usage":       {"Anthropic, streamed", `"usage":{"output_tokens":15}}` + "\n\n", 36, 15},
		"Gemini, which tells all the while": {"Gemini, streamed", `"thoughtsTokenCount":6}}` + "\r\n\r\n", 6, 14},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := recordings[tt.rec]
			at := strings.Index(rec.body, tt.behind) + len(tt.behind)
			g := newGateway(t, Config{}, true, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice who hangs up
				w.Header().Set("Content-Type", rec.kind)
				_, _ = io.WriteString(w, rec.body[:at])
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			ctx, hangUp := context.WithTimeout(t.Context(), time.Minute)
			r := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, g.URL+rec.path, strings.NewReader(body)))(t)
			res := must.Get(http.DefaultClient.Do(r))(t)
			check.OK(t, check.ErrorOf(io.ReadFull(res.Body, make([]byte, at)))) // chunks are not kept back
			hangUp()
			_ = res.Body.Close()
			g.charges("what was told", 1, tt.input+tt.output, tt.input, tt.output)
		})
	}
}
