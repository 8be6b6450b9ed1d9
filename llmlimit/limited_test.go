package llmlimit

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

// program is a program that calls a model by a client with limits.
type program struct {
	meter   *Meter
	limiter *core.Limiter
	client  *http.Client
	url     string
}

func newProgram(t testing.TB, config Config, limits func(*Meter) []core.Limit, upstream http.HandlerFunc) *program {
	t.Helper()
	origin := httptest.NewServer(upstream)
	t.Cleanup(origin.Close)
	config.Trust = append(config.Trust, must.Get(url.Parse(origin.URL))(t).Host)
	p := &program{meter: must.Get(New(config))(t), url: origin.URL}
	p.limiter = core.ForLimits(weblimittest.New(t), limits(p.meter))
	p.client = &http.Client{Transport: p.meter.Limited(origin.Client().Transport, p.limiter)}
	return p
}

func (p *program) left(t testing.TB) int64 {
	t.Helper()
	d := must.Get(p.limiter.Peek(context.Background(), "all", 0))(t)
	b, _ := d.Binding()
	return b.Remaining
}

func tokensOf(n int64) func(*Meter) []core.Limit {
	return func(m *Meter) []core.Limit {
		return []core.Limit{m.Limit("tokens", Tokens, core.PerHour(n).By(keyfuncs.Everyone()))}
	}
}

func (p *program) ask(t testing.TB, path, body string) (status int, header http.Header, text string) {
	t.Helper()
	res := must.Get(p.client.Post(p.url+path, jsonType, strings.NewReader(body)))(t)
	got, err := io.ReadAll(res.Body)
	check.OK(t, err)
	check.OK(t, res.Body.Close())
	return res.StatusCode, res.Header, string(got)
}

func TestAProgramIsChargedWhatWasUsed(t *testing.T) {
	t.Parallel()
	for name, rec := range recordings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, Config{}, tokensOf(lot), func(w http.ResponseWriter, r *http.Request) {
				check.Equal(t, "the body that was sent", string(must.Get(io.ReadAll(r.Body))(t)), `{"max_tokens":700}`)
				check.Equal(t, "Accept-Encoding", r.Header.Get("Accept-Encoding"), "identity")
				play(rec, 3)(w, r)
			})
			status, _, text := p.ask(t, rec.path, `{"max_tokens":700}`)
			check.Equal(t, "status", status, 200)
			check.Equal(t, "the body", text, rec.body)
			check.OK(t, p.limiter.Drain(t.Context()))
			check.Equal(t, "tokens used", lot-p.left(t), rec.told.Total())
		})
	}
}

// A denial is an answer as the provider would write it, and the request is not sent.
func TestAProgramThatIsDenied(t *testing.T) {
	t.Parallel()
	p := newProgram(t, Config{}, tokensOf(1000), func(w http.ResponseWriter, r *http.Request) { play(recordings["OpenAI chat, streamed"], 0)(w, r) })
	const body = `{"model":"m","max_tokens":900}`
	status, _, _ := p.ask(t, "/v1/chat/completions", body)
	check.Equal(t, "status", status, 200)
	check.OK(t, p.limiter.Drain(t.Context()))
	check.Equal(t, "left", p.left(t), 1000-29)
	status, header, text := p.ask(t, "/v1/chat/completions", `{"model":"m","max_tokens":960}`)
	check.Equal(t, "status", status, 429)
	check.Equal(t, "body", text, `{"error":{"message":"Rate limit exceeded. Retry in 69 seconds.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`)
	check.Equal(t, "Retry-After", header.Get("Retry-After"), "69")
	check.Equal(t, "x-should-retry", header.Get("X-Should-Retry"), "false")
	check.Equal(t, "left", p.left(t), 1000-29)
}

// Nothing is charged beyond what was reserved but one event of each stream, where streams end at their estimate.
func TestFiveRequestsAtOnce(t *testing.T) {
	t.Parallel()
	const body = `{"max_tokens":10}` // with 17 bytes of input: 27 tokens
	events := data(`{"choices":[{"delta":{"content":"a"}}]}`)
	var calls sync.WaitGroup
	all := make(chan struct{})
	p := newProgram(t, Config{EndAtEstimate: true}, tokensOf(100), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-all
		w.Header().Set("Content-Type", "text/event-stream")
		for range 1000 { // a model that does not keep to its maximum
			if _, err := io.WriteString(w, events); err != nil {
				return
			}
		}
	})
	var mu sync.Mutex
	var passed, denied int
	for range 5 {
		calls.Go(func() {
			status, _, text := p.ask(t, "/v1/chat/completions", body)
			mu.Lock()
			defer mu.Unlock()
			if status != 200 {
				if denied++; denied == 2 {
					close(all) // the others run
				}
				return
			}
			passed++
			check.Equal(t, "events that pass", strings.Count(text, `"content":"a"`), 11)
			check.Equal(t, "how it ends", text[11*len(events):], "\ndata: "+`{"error":{"message":"`+endedMessage+`","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`+"\n\n")
		})
	}
	calls.Wait()
	check.Equal(t, "requests that pass", passed, 3)
	check.OK(t, p.limiter.Drain(t.Context()))
	check.Equal(t, "tokens left", p.left(t), 100-3*(17+11))
}

// A body that is read and closed by several goroutines at once is charged once.
func TestAStreamIsChargedOnce(t *testing.T) {
	t.Parallel()
	var charged atomic.Int64
	p := newProgram(t, Config{Observe: func(context.Context, Spent) { charged.Add(1) }}, tokensOf(lot), play(recordings["Anthropic, streamed"], 100))
	for range 20 {
		res := must.Get(p.client.Post(p.url+"/v1/messages", jsonType, strings.NewReader(`{"max_tokens":700}`)))(t)
		check.OK(t, check.ErrorOf(res.Body.Read(make([]byte, 10))))
		var ending sync.WaitGroup
		for range 4 {
			ending.Go(func() { _ = res.Body.Close() })
			ending.Go(func() { _, _ = res.Body.Read(make([]byte, 1000)) })
		}
		ending.Wait()
	}
	check.Equal(t, "charges", charged.Load(), 20)
}

// A program that closes an answer of which more could come is charged what was told until then, at once.
func TestAProgramThatClosesEarly(t *testing.T) {
	t.Parallel()
	rec := recordings["Anthropic, streamed"]
	at := strings.Index(rec.body, "event: ping")
	over := make(chan struct{})
	defer close(over)
	p := newProgram(t, Config{}, tokensOf(lot), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", rec.kind)
		_, _ = io.WriteString(w, rec.body[:at])
		_ = http.NewResponseController(w).Flush()
		<-over
	})
	res := must.Get(p.client.Post(p.url+rec.path, jsonType, strings.NewReader(`{"max_tokens":700}`)))(t)
	check.OK(t, check.ErrorOf(io.ReadFull(res.Body, make([]byte, at))))
	check.OK(t, res.Body.Close())
	check.OK(t, p.limiter.Drain(t.Context()))
	check.Equal(t, "tokens used", lot-p.left(t), 36+700)
}

// What a call has spent is told once, with what is an estimate of it.
func TestObserve(t *testing.T) {
	t.Parallel()
	var spent atomic.Pointer[Spent]
	config := Config{Prices: pricesOf(t), Observe: func(_ context.Context, s Spent) { spent.Store(&s) }}
	p := newProgram(t, config, tokensOf(lot), play(recordings["Anthropic, streamed"], 100))
	p.ask(t, "/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":700}`)
	s := spent.Load()
	check.Equal(t, "model", s.Call.Name, "claude-sonnet-4*")
	check.Equal(t, "usage", s.Usage, Usage{Input: 36, CacheRead: 4, CacheWrite: 7, Output: 15})
	check.Equal(t, "cost", s.Cost, int64(328)) // 327.45
	check.All(t, "told, status, trust", []any{s.InputTold, s.OutputTold, s.Status, s.Trusted, s.EndedAtLimit}, true, true, 200, true, false)
}

// A connection that fails leaves the estimate charged, since nobody knows what was done, unless the limit refunds it.
func TestAProviderThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refund bool
		want   int64
	}{"charged": {false, 700 + 18}, "refunded": {true, 0}} {
		p := newProgram(t, Config{}, func(m *Meter) []core.Limit {
			l := core.PerHour(lot).By(keyfuncs.Everyone())
			if tt.refund {
				l = l.RefundOn(core.ServerErrors)
			}
			return []core.Limit{m.Limit("tokens", Tokens, l)}
		}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		_, err := p.client.Post(p.url+chatPath, jsonType, strings.NewReader(`{"max_tokens":700}`)) //nolint:bodyclose // there is no answer
		check.Is(t, name, err, io.EOF)
		check.OK(t, p.limiter.Drain(t.Context()))
		check.Equal(t, name, lot-p.left(t), tt.want)
	}
}

// Of a choice of budgets the one that has paid is charged what was used, and what it has no room for goes on to the next.
func TestPlanThenCredits(t *testing.T) {
	t.Parallel()
	const body = `{"max_tokens":5}` // estimated 16 + 5 tokens; 51 are used
	p := newProgram(t, Config{}, func(m *Meter) []core.Limit {
		plan := m.Limit("plan", Tokens, core.PerHour(80).FixedWindow().By(keyfuncs.Everyone()))
		credits := m.Limit("credits", Tokens, core.PerDay(100).FixedWindow().By(keyfuncs.Everyone()))
		return []core.Limit{core.First(plan.SpillOver(), credits)}
	}, play(recordings["Anthropic, streamed"], 0))
	used := func() (n [2]int64) {
		check.OK(t, p.limiter.Drain(t.Context()))
		d := must.Get(p.limiter.Peek(t.Context(), "all", 0))(t)
		for i, r := range d.Results() {
			n[i] = r.Rule.Burst - r.Remaining
		}
		return n
	}
	for _, step := range []struct {
		status int
		used   [2]int64
	}{{200, [2]int64{51, 0}}, {200, [2]int64{80, 22}}, {200, [2]int64{80, 73}}, {200, [2]int64{80, 100}}, {429, [2]int64{80, 100}}} {
		status, _, _ := p.ask(t, "/v1/messages", body)
		check.Equal(t, "status", status, step.status)
		check.Equal(t, "used of plan and credits", used(), step.used)
	}
}

// A request that waits for its turn when its context ends is an error, as that of any transport.
func TestAProgramThatGivesUpWaiting(t *testing.T) {
	t.Parallel()
	p := newProgram(t, Config{}, func(m *Meter) []core.Limit {
		return []core.Limit{m.Limit("tokens", Tokens, core.PerHour(1000).By(keyfuncs.Everyone()).Wait(time.Hour))}
	}, play(recordings["OpenAI chat, streamed"], 0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.limiter.AllowKey(t.Context(), "all", 1000)
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, "https://api.openai.com"+chatPath, strings.NewReader(`{"max_tokens":700}`)))(t)
	res, err := p.client.Transport.RoundTrip(r) //nolint:bodyclose // there is no answer
	check.Is(t, "error", err, context.Canceled)
	check.Equal(t, "there is an answer", res != nil, false)
}

// bare is a transport that says of an answer only what it must.
type bare struct{}

func (bare) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}}, nil
}

func TestATransportThatSaysLittle(t *testing.T) {
	t.Parallel()
	m := must.Get(New(Config{}))(t)
	limiter := core.ForLimits(weblimittest.New(t), tokensOf(lot)(m))
	for name, transport := range map[string]http.RoundTripper{"gateway": m.Transport(bare{}), "program": m.Limited(bare{}, limiter)} {
		res := must.Get(transport.RoundTrip(posted("https://api.openai.com"+chatPath, `{"max_tokens":1}`)))(t)
		text, err := io.ReadAll(res.Body)
		check.All(t, name, []any{string(text), err, res.Body.Close()}, "", nil, nil)
	}
}
