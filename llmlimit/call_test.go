package llmlimit

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// called has a meter read a request.
func called(t testing.TB, config Config, r *http.Request) (Call, *http.Request) {
	t.Helper()
	m := must.Get(New(config))(t)
	r = m.ReadRequest(r)
	c, ok := m.Call(r.Context())
	check.Equal(t, "the request was read", ok, true)
	return c, r
}

func posted(path, body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
}

const chatPath = "/v1/chat/completions"

func TestModelsOfRequests(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for name, tt := range map[string]struct{ path, body, model, name string }{
		"a name":              {chatPath, `{"messages":[{"role":"user","content":"\"model\":\"x\""}],"model":"gpt-4o-mini-2024-07-18"}`, "gpt-4o-mini-2024-07-18", "gpt-4o-mini*"},
		"a shorter pattern":   {chatPath, `{"model":"gpt-4o-2024-08-06"}`, "gpt-4o-2024-08-06", "gpt-4o*"},
		"a made-up name":      {chatPath, `{"model":"cheap"}`, "cheap", Other},
		"escaped":             {chatPath, `{"\u006dodel":"gpt-4o\u002dmini"}`, "gpt-4o-mini", "gpt-4o-mini*"},
		"behind depth":        {chatPath, `{"messages":` + deep + `,"model":"gpt-4o"}`, "gpt-4o", "gpt-4o*"},
		"of Gemini":           {"/v1beta/models/gpt-4o%2Dmini:streamGenerateContent", `{"model":"gpt-4o"}`, "gpt-4o-mini", "gpt-4o-mini*"},
		"of Bedrock":          {"/model/claude-sonnet-4%3A0/converse", `{}`, "claude-sonnet-4:0", "claude-sonnet-4*"},
		"of Azure":            {"/openai/deployments/gpt-4o/chat/completions", `{"model":"gpt-4o-mini"}`, "gpt-4o", "gpt-4o*"},
		"twice":               {chatPath, `{"model":"gpt-4o-mini","model":"gpt-4o"}`, "", Other},
		"twice the same":      {chatPath, `{"model":"gpt-4o","model":"gpt-4o"}`, "", Other},
		"twice, once escaped": {chatPath, `{"model":"gpt-4o-mini","mode\u006c":"gpt-4o"}`, "", Other},
		"once as a number":    {chatPath, `{"model":"gpt-4o-mini","model":5}`, "", Other},
		"in other case":       {chatPath, `{"model":"gpt-4o-mini","Model":"gpt-4o"}`, "", Other},
		"in other case alone": {chatPath, `{"MODEL":"gpt-4o-mini"}`, "", Other},
		"no text":             {chatPath, `{"model":["gpt-4o"]}`, "", Other},
		"too long":            {chatPath, `{"model":"gpt-4o` + strings.Repeat("x", 200) + `"}`, "", Other},
		"deeper":              {chatPath, `{"x":{"model":"gpt-4o"}}`, "", Other},
		"an array":            {chatPath, `[{"model":"gpt-4o"}]`, "", Other},
		"no JSON":             {chatPath, `{"model":"gpt-4o",}`, "", Other},
		"two texts":           {chatPath, `{"model":"gpt-4o"}{"model":"gpt-4o-mini"}`, "", Other},
		"no UTF-8":            {chatPath, "{\"model\":\"gpt-4o\xff\"}", "", Other},
		"a mark in front":     {chatPath, "\ufeff" + `{"model":"gpt-4o"}`, "", Other},
		"nothing":             {chatPath, ``, "", Other},
		"more than is read":   {chatPath, `{"model":"gpt-4o","x":"` + strings.Repeat("x", 20000) + `"}`, "", Other},
	} {
		c, r := called(t, Config{Prices: pricesOf(t), Peek: 16 << 10}, posted(tt.path, tt.body))
		check.Equal(t, name+": model", c.Model, tt.model)
		check.Equal(t, name+": name", c.Name, tt.name)
		check.Equal(t, name+": body", string(must.Get(io.ReadAll(r.Body))(t)), tt.body)
	}
}

func TestEstimatesOfRequests(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path, body string
		output     int64
	}{
		"as asked":               {chatPath, `{"max_tokens":50}`, 50},
		"the larger one":         {chatPath, `{"max_tokens":50,"max_completion_tokens":70}`, 70},
		"the larger of two":      {chatPath, `{"max_tokens":50,"max_tokens":40}`, 50},
		"for each choice":        {chatPath, `{"max_tokens":50,"n":128}`, 6400},
		"for each prompt":        {"/v1/completions", `{"max_tokens":50,"n":2,"prompt":["a","b",[1,2]]}`, 300},
		"one prompt, in tokens":  {"/v1/completions", `{"max_tokens":50,"prompt":[1,2,3]}`, 50},
		"one prompt":             {"/v1/completions", `{"max_tokens":50,"prompt":"a"}`, 50},
		"embeddings in disguise": {"/v1/completions%2Fembeddings", `{"max_tokens":50}`, 50},
		"of responses":           {"/v1/responses", `{"max_output_tokens":60}`, 60},
		"of Gemini":              {"/v1beta/models/m:generateContent", `{"generationConfig":{"maxOutputTokens":70,"candidateCount":2}}`, 140},
		"of Gemini, snake case":  {"/v1beta/models/m:generateContent", `{"generation_config":{"max_output_tokens":70,"candidate_count":3}}`, 210},
		"of converse":            {"/model/m/converse", `{"inferenceConfig":{"maxTokens":80}}`, 80},
		"none":                   {chatPath, `{}`, 4096},
		"none, for each choice":  {chatPath, `{"n":2}`, 8192},
		"0":                      {chatPath, `{"max_tokens":0}`, 4096},
		"negative":               {chatPath, `{"max_tokens":-5,"n":-2}`, 4096},
		"a fraction":             {chatPath, `{"max_tokens":5.5}`, 4096},
		"text beside it":         {chatPath, `{"max_tokens":5,"max_completion_tokens":"9000"}`, 4096},
		"huge":                   {chatPath, `{"max_tokens":999999999999999999,"n":999999999999999999}`, MaxTokens},
		"no JSON":                {chatPath, `{"max_tokens":5`, 4096},
		"more than the model's":  {chatPath, `{"model":"gpt-4o","max_tokens":50000}`, 16384},
		"none, with the model's": {chatPath, `{"model":"gpt-4o"}`, 16384},
		"embeddings":             {"/v1/embeddings", `{"input":"a"}`, 0},
	} {
		config := Config{}
		if strings.Contains(name, "model's") {
			config.Prices = pricesOf(t)
		}
		c, _ := called(t, config, posted(tt.path, tt.body))
		check.Equal(t, name+": output", c.Output, tt.output)
		check.Equal(t, name+": input", c.Input, int64(len(tt.body)))
		for measure := range measures {
			if n := c.estimate(measure); n < 0 {
				t.Errorf("%s: %d %s", name, n, measure)
			}
		}
	}
}

func TestEstimatesOfInput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	compressed := posted(chatPath, `{}`)
	compressed.Header.Set("Content-Encoding", "gzip")
	unknown := httptest.NewRequest(http.MethodPost, chatPath, io.NopCloser(strings.NewReader(long))) // of no known length
	understated := posted(chatPath, long)
	understated.ContentLength = 10
	for name, tt := range map[string]struct {
		request *http.Request
		want    int64
	}{
		"all of it":           {posted(chatPath, long[:1000]), 250},
		"rounded up":          {posted(chatPath, long[:1001]), 251},
		"by its length":       {posted(chatPath, long), 1250},
		"of no known length":  {unknown, MaxTokens},
		"longer than it says": {understated, MaxTokens},
		"compressed":          {compressed, MaxTokens},
		"without a body":      {httptest.NewRequest(http.MethodPost, chatPath, nil), 0},
	} {
		c, _ := called(t, Config{BytesPerToken: 4, Peek: 1024}, tt.request)
		check.Equal(t, name, c.Input, tt.want)
	}
}

func TestKeysAndConditionsOfModels(t *testing.T) {
	t.Parallel()
	m := must.Get(New(Config{Prices: pricesOf(t)}))(t)
	for body, want := range map[string]string{`{"model":"gpt-4o-mini"}`: "gpt-4o-mini*", `{"model":"x"}`: Other} {
		r := stdhttp.Of(m.ReadRequest(posted(chatPath, body)))
		key, _ := m.Model().Key(r)
		check.Equal(t, "key", key, keyfuncs.Encode("model", want))
		check.Equal(t, "condition", m.Models("gpt-4o-mini*").Match(r), want != Other)
		check.Equal(t, "condition of the others", m.Models(Other).Match(r), want == Other)
	}
	key, _ := m.Model().Key(stdhttp.Of(posted(chatPath, `{"model":"gpt-4o-mini"}`)))
	check.Equal(t, "key of a request that was not read", key, keyfuncs.Encode("model", Other))
	defer func() { check.Equal(t, "a model without a price panics", recover() != nil, true) }()
	m.Models("gpt-4o-mini")
}

// Limits that ReadRequest does not stand before let nothing pass, so that it is noticed.
func TestRequestsThatWereNotRead(t *testing.T) {
	t.Parallel()
	m := must.Get(New(Config{}))(t)
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{m.Limit("tokens", Tokens, core.PerHour(1_000_000).By(keyfuncs.Everyone()))})
	d := limiter.Allow(stdhttp.Of(posted(chatPath, `{"max_tokens":1}`)))
	check.Equal(t, "allowed", d.Allowed, false)
	check.Equal(t, "reason", d.Reason, core.ReasonNeverFits)
}

func TestAskForUsage(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"stream":true,"model":"m"}`:                  `{"stream_options":{"include_usage":true},"stream":true,"model":"m"}`,
		`{ "stream" : true }`:                          `{"stream_options":{"include_usage":true}, "stream" : true }`,
		`{"stream":true,"stream_options":null}`:        `{"stream_options":{"include_usage":true},"stream":true,"stream_options":null}`,
		`{"stream":true,"stream_options":{}}`:          ``,
		`{"stream":false}`:                             ``,
		`{"stream":"true"}`:                            ``,
		`{"stream":true,"Stream_Options":{"a":false}}`: ``,
		`[{"stream":true}]`:                            ``,
		`{"stream":true`:                               ``,
		`{}`:                                           ``,
	} {
		if want == "" {
			want = body
		}
		_, r := called(t, Config{AskForUsage: true}, posted(chatPath, body))
		got := must.Get(io.ReadAll(r.Body))(t)
		check.Equal(t, body, string(got), want)
		check.Equal(t, body+": its length", r.ContentLength, int64(len(want)))
	}
	_, r := called(t, Config{AskForUsage: true}, posted("/v1/messages", `{"stream":true}`))
	check.Equal(t, "another API", string(must.Get(io.ReadAll(r.Body))(t)), `{"stream":true}`)
}

// FuzzRequest has any bytes as a body: estimates are bounded, the body is passed on, and a model is what encoding/json
// reads.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"model":"gpt-4o","max_tokens":5,"n":2,"stream":true}`, `{"model":"a","model":"b"}`, `{"generationConfig":{"maxOutputTokens":1e9}}`, `{"MODEL":"a"}`,
	} {
		f.Add([]byte(body))
	}
	m, err := New(Config{Prices: pricesOf(f), Peek: 4096, AskForUsage: true})
	check.OK(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		r := m.ReadRequest(posted(chatPath, string(body)))
		c, _ := m.Call(r.Context())
		for measure := range measures {
			if n := c.estimate(measure); n < 0 || n > 1<<53 {
				t.Fatalf("an estimate of %d %s", n, measure)
			}
		}
		passed := must.Get(io.ReadAll(r.Body))(t)
		if !bytes.Equal(passed, body) && !json.Valid(passed) {
			t.Fatalf("%q became %q", body, passed)
		}
		var said struct {
			Model string `json:"model"`
		}
		if c.Model != "" && (json.Unmarshal(body, &said) != nil || said.Model != c.Model) {
			t.Fatalf("the model of %q is %q, and encoding/json reads %q", body, c.Model, said.Model)
		}
	})
}
