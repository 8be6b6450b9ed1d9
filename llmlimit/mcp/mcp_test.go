package mcp

import (
	"encoding/json"
	"fmt"
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
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/weblimittest"
)

func toolsOf(t testing.TB) *Tools {
	t.Helper()
	return must.Get(New(Config{Tools: []string{"search", "render"}, Peek: 4096}))(t)
}

func post(body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
}

func callTo(name string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + name + `","arguments":{"name":"render","method":"x"}}}`
}

func TestToolsOfRequests(t *testing.T) {
	t.Parallel()
	tools := toolsOf(t)
	compressed := post(callTo("search"))
	compressed.Header.Set("Content-Encoding", "gzip")
	for name, tt := range map[string]struct {
		request        *http.Request
		tool           string
		calls, renders bool
		cost           int64
	}{
		"a call":                 {post(callTo("search")), "search", true, false, 1},
		"of another tool":        {post(callTo("render")), "render", true, true, 1},
		"of a made-up tool":      {post(callTo("rend")), Other, true, false, 1},
		"escaped":                {post(`{"method":"tools\/call","params":{"n\u0061me":"rende\u0072"}}`), "render", true, true, 1},
		"in another order":       {post(`{"params":{"arguments":{},"name":"render"},"method":"tools/call"}`), "render", true, true, 1},
		"another method":         {post(`{"method":"tools/list","params":{"name":"render"}}`), Other, false, false, 1},
		"a response":             {post(`{"jsonrpc":"2.0","id":1,"result":{}}`), Other, false, false, 1},
		"a GET":                  {httptest.NewRequest(http.MethodGet, "/mcp", nil), Other, false, false, 1},
		"two methods":            {post(`{"method":"tools/list","method":"tools/call","params":{"name":"search"}}`), Other, true, true, 1},
		"two names":              {post(`{"method":"tools/call","params":{"name":"search","name":"render"}}`), Other, true, true, 1},
		"a name in other case":   {post(`{"method":"tools/call","params":{"name":"search","Name":"render"}}`), Other, true, true, 1},
		"a method in other case": {post(`{"Method":"tools/call","params":{"name":"render"}}`), Other, true, true, 1},
		"a method that is none":  {post(`{"method":["tools/call"],"params":{"name":"render"}}`), Other, true, true, 1},
		"a name that is none":    {post(`{"method":"tools/call","params":{"name":5}}`), Other, true, false, 1},
		"no name":                {post(`{"method":"tools/call"}`), Other, true, true, 1},
		"a batch":                {post(`[` + callTo("search") + `,` + callTo("render") + `,{"method":"ping"}]`), Other, true, true, 3},
		"an empty batch":         {post(`[]`), Other, false, false, 1},
		"no JSON":                {post(`{"method":"tools/call",}`), Other, true, true, 1},
		"compressed":             {compressed, Other, true, true, 1},
		"more than is read":      {post(callTo("search") + strings.Repeat(" ", 5000)), Other, true, true, 1},
		"a long name":            {post(callTo(strings.Repeat("x", 300))), Other, true, false, 1},
		"with params in another": {post(`{"method":"tools/call","params":[{"name":"render"}]}`), Other, true, true, 1},
	} {
		body := must.Get(io.ReadAll(tt.request.Body))(t)
		tt.request.Body = io.NopCloser(strings.NewReader(string(body)))
		read := tools.ReadRequest(tt.request)
		r := stdhttp.Of(read)
		key, _ := tools.Tool().Key(r)
		check.Equal(t, name+": tool", key, keyfuncs.Encode("tool", tt.tool))
		check.Equal(t, name+": calls", tools.Calls().Match(r), tt.calls)
		check.Equal(t, name+": calls render", tools.Calls("render").Match(r), tt.renders)
		check.Equal(t, name+": cost", tools.Cost(r), tt.cost)
		check.Equal(t, name+": body", string(must.Get(io.ReadAll(read.Body))(t)), string(body))
	}
}

func TestRequestsThatWereNotRead(t *testing.T) {
	t.Parallel()
	tools, r := toolsOf(t), stdhttp.Of(post(callTo("search")))
	check.Equal(t, "calls render", tools.Calls("render").Match(r), true)
	check.Equal(t, "cost", tools.Cost(r), 1)
}

func TestDenials(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body   string
		status int // of the configuration
		want   string
		code   int
	}{
		"a number as ID":  {callTo("render"), 0, `{"jsonrpc":"2.0","id":7,"error":{"code":-32029,"message":"Rate limit exceeded. Retry in 3600 seconds.","data":{"retryAfter":3600}}}`, 200},
		"text as ID":      {strings.Replace(callTo("render"), "7", `"a\"<"`, 1), 429, `{"jsonrpc":"2.0","id":"a\"\u003c","error":{"code":-32029,"message":"Rate limit exceeded. Retry in 3600 seconds.","data":{"retryAfter":3600}}}`, 429},
		"a notification":  {strings.Replace(callTo("render"), `"id":7,`, "", 1), 0, ``, 429},
		"an object as ID": {strings.Replace(callTo("render"), "7", "{}", 1), 0, ``, 429},
		"a long ID":       {strings.Replace(callTo("render"), "7", `"`+strings.Repeat("x", 200)+`"`, 1), 0, ``, 429},
		"a batch":         {`[` + callTo("render") + `]`, 0, ``, 429},
		"no JSON":         {`{`, 0, ``, 429},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools := must.Get(New(Config{Tools: []string{"render"}, Status: tt.status}))(t)
			limits := nethttp.With(core.Config{Store: weblimittest.New(t)}, nethttp.Config{Denied: tools.Denied})
			limit := limits.Limit(core.PerHour(1).By(keyfuncs.Everyone()).Named("render").When(tools.Calls("render")).CostBy(tools.Cost))
			handler := tools.Read(limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			var w *httptest.ResponseRecorder
			for range 2 {
				w = httptest.NewRecorder()
				handler.ServeHTTP(w, post(tt.body))
			}
			check.Equal(t, "status", w.Code, tt.code)
			check.Equal(t, "Retry-After", w.Header().Get("Retry-After"), "3600")
			if tt.want == "" {
				check.Equal(t, "Content-Type", w.Header().Get("Content-Type"), core.ProblemType)
				return
			}
			check.Equal(t, "body", w.Body.String(), tt.want)
			check.Equal(t, "Content-Type", w.Header().Get("Content-Type"), "application/json")
		})
	}
}

func TestConfigurationsThatCantWork(t *testing.T) {
	t.Parallel()
	for part, config := range map[string]Config{
		"Config.Peek must be from 1 to 67108864":  {Peek: -1},
		"Config.Status must be 200, or from 400":  {Status: 302},
		"Config.Tools has more than 10000 names":  {Tools: make([]string, maxTools+1)},
		`Config.Tools: "" is empty`:               {Tools: []string{""}},
		`Config.Tools: "other" is empty`:          {Tools: []string{Other}},
		`Config.Tools: "a" is empty`:              {Tools: []string{"a", "a"}},
		`Config.Tools: "xxxxxxxxxxxxxxxxxxxxxxxx`: {Tools: []string{strings.Repeat("x", maxName+1)}},
	} {
		check.Fails(t, part, check.ErrorOf(New(config)), part)
	}
	defer func() { check.Equal(t, "a condition of no tool panics", recover() != nil, true) }()
	toolsOf(t).Calls("rendre")
}

// FuzzCall has any bytes as a body: the tool is what encoding/json reads, or in doubt.
func FuzzCall(f *testing.F) {
	for _, body := range []string{callTo("search"), `[` + callTo("render") + `]`, `{"method":"tools/call","params":{"name":"x","NAME":"y"}}`} {
		f.Add([]byte(body))
	}
	tools := toolsOf(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		r := tools.ReadRequest(post(string(body)))
		c, ok := r.Context().Value(callKey{tools}).(*call)
		if !ok {
			return // an empty one
		}
		if cost := tools.Cost(stdhttp.Of(r)); cost < 1 || cost > 4096 {
			t.Fatalf("a cost of %d", cost)
		}
		var said struct {
			Method string `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		err := json.Unmarshal(body, &said)
		if err == nil && said.Method == "tools/call" && c.calls == 0 {
			t.Fatalf("%q calls no tool", body)
		}
		if c.known && !c.doubt && (err != nil || said.Params.Name != c.tool) {
			t.Fatalf("%q calls %q, and encoding/json reads %q", body, c.tool, said.Params.Name)
		}
		w := httptest.NewRecorder()
		tools.Denied(w, r, core.Decision{})
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("a denial of %q is %s", body, w.Body)
		}
	})
}

func ExampleTools() {
	tools, err := New(Config{Tools: []string{"search", "render"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits := nethttp.With(core.Config{Store: core.NewMemory()}, nethttp.Config{Denied: tools.Denied})
	limit := limits.Limit(core.PerHour(1).By(keyfuncs.Everyone(), tools.Tool()).Named("tool").When(tools.Calls()).CostBy(tools.Cost))
	handler := tools.Read(limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") })))
	for _, tool := range []string{"search", "render", "search"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, post(callTo(tool)))
		fmt.Println(w.Body)
	}
	// Output:
	// done
	// done
	// {"jsonrpc":"2.0","id":7,"error":{"code":-32029,"message":"Rate limit exceeded. Retry in 3600 seconds.","data":{"retryAfter":3600}}}
}
