package clients

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v75/github"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// readings are what read.mjs prints for one response.
type readings struct {
	Structured map[string]any
	Parser     map[string]any
}

// readInNode returns what parsers of npm read in recorded responses.
func readInNode(t *testing.T, responses [][]byte) (all []readings) {
	t.Helper()
	server := replay(t, responses)
	urls := make([]string, len(responses))
	for i := range responses {
		urls[i] = server.URL + replayPath(i)
	}
	out := node(t, "read.mjs", urls)
	if err := json.Unmarshal(out, &all); err != nil || len(all) != len(urls) {
		t.Fatalf("read.mjs: %v: %s", err, out)
	}
	return all
}

// What two parsers of npm read in the responses of docs/use/headers.md, a 200 and a 429.
func TestParsersReadEachDialect(t *testing.T) {
	t.Parallel()
	var responses [][]byte
	for _, d := range dialects {
		all := record(t, d.headers, 6, perClient())
		responses = append(responses, all[0], all[5])
	}
	want := []struct{ structured, parser string }{
		{ // Draft11. The parser knows only dictionaries.
			`{"ratelimit":[["client",{"r":4,"t":48}]],"ratelimit-policy":[["client",{"q":5,"w":60}]]}`,
			`{"limit":"NaN","remaining":"NaN","used":"NaN","resetAt":null}`,
		},
		{
			`{"ratelimit":[["client",{"r":0,"t":12}]],"ratelimit-policy":[["client",{"q":5,"w":60}]]}`,
			`{"limit":"NaN","remaining":"NaN","used":"NaN","resetAt":null}`,
		},
		{ // Draft07
			`{"ratelimit":{"limit":[5,{}],"remaining":[4,{}],"reset":[12,{}]},"ratelimit-policy":[[5,{"w":60}]]}`,
			`{"limit":"5","remaining":"4","used":"1","resetIn":12}`,
		},
		{
			`{"ratelimit":{"limit":[5,{}],"remaining":[0,{}],"reset":[60,{}]},"ratelimit-policy":[[5,{"w":60}]]}`,
			`{"limit":"5","remaining":"0","used":"5","resetIn":60}`,
		},
		{ // Draft03
			`{"ratelimit-limit":[5,{"w":60}],"ratelimit-remaining":[4,{}],"ratelimit-reset":[12,{}]}`,
			`{"limit":"5","remaining":"4","used":"1","resetIn":12}`,
		},
		{
			`{"ratelimit-limit":[5,{"w":60}],"ratelimit-remaining":[0,{}],"ratelimit-reset":[60,{}]}`,
			`{"limit":"5","remaining":"0","used":"5","resetIn":60}`,
		},
		{ // XRateLimit
			`{"x-ratelimit-limit":[5,{}],"x-ratelimit-remaining":[4,{}],"x-ratelimit-reset":[1782907212,{}]}`,
			`{"limit":"5","remaining":"4","used":"1","resetAt":1782907212}`,
		},
		{
			`{"x-ratelimit-limit":[5,{}],"x-ratelimit-remaining":[0,{}],"x-ratelimit-reset":[1782907260,{}]}`,
			`{"limit":"5","remaining":"0","used":"5","resetAt":1782907260}`,
		},
		{ // XRateLimitDelta
			`{"x-ratelimit-limit":[5,{}],"x-ratelimit-remaining":[4,{}],"x-ratelimit-reset":[12,{}]}`,
			`{"limit":"5","remaining":"4","used":"1","resetIn":12}`,
		},
		{
			`{"x-ratelimit-limit":[5,{}],"x-ratelimit-remaining":[0,{}],"x-ratelimit-reset":[60,{}]}`,
			`{"limit":"5","remaining":"0","used":"5","resetIn":60}`,
		},
	}
	for i, got := range readInNode(t, responses) {
		name := dialects[i/2].name
		same(t, name+": structured-headers", got.Structured, want[i].structured)
		if _, relative := got.Parser["resetIn"]; relative {
			delete(got.Parser, "resetAt") // it depends on the clock
		}
		same(t, name+": ratelimit-header-parser", got.Parser, want[i].parser)
	}
}

// A parser that looks for RateLimit first reads nothing in the other dialect.
func TestParsersReadTwoDialects(t *testing.T) {
	t.Parallel()
	got := readInNode(t, record(t, core.Draft11|core.XRateLimit, 1, perClient()))[0]
	same(t, "ratelimit-header-parser", got.Parser, `{"limit":"NaN","remaining":"NaN","used":"NaN","resetAt":null}`)
}

// Several limits, of two kinds of units, with a name of every permitted character and the
// largest quota of a day.
func TestStructuredHeadersReadsSeveralLimits(t *testing.T) {
	t.Parallel()
	name := "ABCDEFGHIJKLMNOPQRSTUVWXYZ-abcdefghijklmnopqrstuvwxyz_0123456789"
	responses := record(t, core.Draft11, 1,
		perClient(),
		core.PerDay(1_000_000_000).FixedWindow().By(keyfuncs.Everyone()).Named(name[:64]),
		core.Per(100, 1500*time.Millisecond).By(keyfuncs.Everyone()).Named("no.whole.seconds"),
		core.Concurrent(2).By(keyfuncs.Everyone()).Named("slots"),
	)
	got := readInNode(t, responses)[0]
	same(t, "several limits", got.Structured, `{
		"ratelimit-policy": [
			["client", {"q": 5, "w": 60}],
			["`+name[:64]+`", {"q": 1000000000, "w": 86400}],
			["no.whole.seconds", {"q": 100}],
			["slots", {"q": 2, "qu": "concurrent-requests"}]
		],
		"ratelimit": [
			["client", {"r": 4, "t": 48}],
			["`+name[:64]+`", {"r": 999999999, "t": 43200}],
			["no.whole.seconds", {"r": 99, "t": 2}],
			["slots", {"r": 1, "t": 1}]
		]
	}`)
}

// go-github reads X-RateLimit as GitHub sends it. Seconds from now are a moment of 1970 to it.
func TestGoGithubReadsXRateLimit(t *testing.T) {
	t.Parallel()
	var responses [][]byte
	for _, d := range dialects {
		responses = append(responses, record(t, d.headers, 1, perClient())[0])
	}
	server := replay(t, responses)
	for i, d := range dialects {
		c := github.NewClient(nil)
		req := must.Get(c.NewRequest("GET", server.URL+replayPath(i), nil))(t)
		res := must.Get(c.Do(context.Background(), req, io.Discard))(t)
		want := github.Rate{}
		switch d.headers {
		case core.XRateLimit:
			want = github.Rate{Limit: 5, Remaining: 4, Reset: github.Timestamp{Time: aWednesday.Add(12 * time.Second)}}
		case core.XRateLimitDelta:
			want = github.Rate{Limit: 5, Remaining: 4, Reset: github.Timestamp{Time: time.Unix(12, 0)}}
		}
		got := res.Rate
		if got.Limit != want.Limit || got.Remaining != want.Remaining || !got.Reset.Equal(want.Reset) {
			t.Errorf("%s: got %v, want %v", d.name, got, want)
		}
	}
}

// same compares what a parser read with JSON.
func same(tb testing.TB, name string, got any, want string) {
	tb.Helper()
	var wanted any
	must.OK(tb, json.NewDecoder(strings.NewReader(want)).Decode(&wanted))
	raw := must.Get(json.Marshal(got))(tb)
	var gotten any
	must.OK(tb, json.Unmarshal(raw, &gotten))
	if !reflect.DeepEqual(gotten, wanted) {
		tb.Errorf("%s: read %s, want %s", name, raw, want)
	}
}
