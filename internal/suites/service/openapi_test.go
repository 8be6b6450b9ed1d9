package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/service"
)

// describedAs checks calls and answers against what the service says of itself.
type describedAs struct {
	t    *testing.T
	by   validator.Validator
	seen map[string]bool // fields of answers and calls, by name, and paths that have answered with 200
}

func description(t *testing.T, s *service.Service) *describedAs {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/v1/openapi.json", nil))
	document := must.Get(libopenapi.NewDocument(w.Body.Bytes()))(t)
	by, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, wrong := by.ValidateDocument(); !ok {
		t.Fatal(wrong)
	}
	return &describedAs{t, by, make(map[string]bool)}
}

// post sends a call, which is to be as described if it is answered, and to be refused otherwise.
func (d *describedAs) post(s http.Handler, path, body string, headers ...string) (int, map[string]any) {
	d.t.Helper()
	request := func() *http.Request {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request())
	response := w.Result()
	text, _ := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(text))
	if ok, wrong := d.by.ValidateHttpResponse(request(), response); !ok {
		d.t.Errorf("%s %s: %d %s: not as described: %s", path, body, w.Code, text, details(wrong))
	}
	ok, wrong := d.by.ValidateHttpRequest(request())
	if w.Code == http.StatusOK && !ok {
		d.t.Errorf("%s %s: answered, and not as described: %s", path, body, details(wrong))
	}
	if w.Code == http.StatusBadRequest && ok && !strings.Contains(path, "denied") {
		d.t.Errorf("%s %s: refused, and as described: %s", path, body, text)
	}
	if w.Code == http.StatusOK {
		d.seen[path] = true
	}
	for _, each := range []string{body, string(text)} {
		var v any
		if json.Unmarshal([]byte(each), &v) == nil {
			d.note(v)
		}
	}
	var got map[string]any
	_ = json.Unmarshal(text, &got)
	return w.Code, got
}

func details[E error](wrong []E) string {
	var all []string
	for _, e := range wrong {
		all = append(all, e.Error())
	}
	return strings.Join(all, "; ")
}

func (d *describedAs) note(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			d.seen[name] = true
			d.note(value)
		}
	case []any:
		for _, value := range v {
			d.note(value)
		}
	}
}

// failing is a store that does not answer.
type failing struct{ core.Store }

func (failing) Take(context.Context, []core.Check, []core.Result) error {
	return context.DeadlineExceeded
}

func (failing) Peek(context.Context, []core.Check, []core.Result) error {
	return context.DeadlineExceeded
}

func TestTheServiceIsAsItDescribesItself(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *service.Config) { c.MaxChecks = 20 })
	d := description(t, s)
	ask := func(path, body string) map[string]any {
		t.Helper()
		status, got := d.post(s, path, body)
		if status != http.StatusOK {
			t.Errorf("%s %s: %d %v", path, body, status, got)
		}
		return got
	}
	everything := `{"policy":"api","request":{"method":"POST","path":"/items/7","route":"/items/{id}","client_ip":"10.0.0.1",
		"headers":{"X-Forwarded-For":["192.0.2.7"],"Accept-Language":"de"},"query":{"page":"2"},"cookies":{"session":["x"]},
		"params":{"id":"7"},"values":{"tenant":"acme","plan":"pro","n":3,"ok":true}},"cost":1,"costs":{"tenant":2},"operation":"op-1","timeout_ms":100}`
	for range 7 {
		ask("/v1/check", everything) // the others repeat the first
		ask("/v1/check", strings.Replace(everything, `,"operation":"op-1"`, "", 1))
	}
	ask("/v1/check", `{"policy":"api","request":{"route":"/healthz"}}`)
	for range 4 {
		ask("/v1/check", `{"policy":"login","request":{"client_ip":"192.0.2.1"}}`)
		ask("/v1/check", `{"policy":"login","key":"a"}`)
		ask("/v1/check", `{"policy":"queue","key":"a"}`)
		ask("/v1/check", `{"policy":"shadow","key":"a"}`)
		ask("/v1/check", `{"policy":"budgets","key":"a"}`)
		ask("/v1/reserve", `{"policy":"running","key":"a"}`)
		ask("/v1/check", `{"policy":"running","key":"b"}`)
	}
	ask("/v1/check", `{"policy":"classes","request":{"method":"POST"}}`)
	for range 3 {
		ask("/v1/check", `{"policy":"fair","request":{"values":{"tenant":"acme","user":"ann","plan":"small"}}}`)
	}
	for range 9 {
		ask("/v1/check", `{"policy":"fair","request":{"values":{"tenant":"heavy","user":"ann"}}}`)
		ask("/v1/check", `{"policy":"fair","request":{"values":{"tenant":"light"}}}`)
	}
	ask("/v1/check", `{"policy":"keys","request":{}}`)
	ask("/v1/check", `{"policy":"keys","request":{"headers":{"Authorization":["Bearer a","Bearer b"]}}}`)
	ask("/v1/check", `{"policy":"tokens","request":{"values":{"tenant":"acme","tokens":4000}},"costs":{"month":950000}}`)
	ask("/v1/check", `{"policy":"tokens","key":"t","cost":2000000}`)
	ask("/v1/check", `{"together":[{"policy":"tokens","key":"t"},{"policy":"queue","key":"t"},{"policy":"keys","request":{}}],"operation":"o","timeout_ms":50}`)
	ask("/v1/check", `{"together":[{"policy":"tokens","key":"t"},{"policy":"queue","key":"t2"}]}`)
	ask("/v1/check", `{"policy":"tokens","key":"t","at_most":5}`)
	ask("/v1/check", `{"policy":"running","key":"batch","at_most":9007199254740992,"hold":true}`)
	ask("/v1/check", `{"policy":"running","key":"batch","at_most":5}`)
	ask("/v1/checks", `{"checks":[{"policy":"tokens","request":{"values":{"tenant":"batch"}},"at_most":7},{"policy":"tokens","key":"t","at_most":0}]}`)
	ask("/v1/reserve", `{"policy":"tokens","key":"t","at_most":5}`)
	ask("/v1/check", `{"policy":"api","key":"warned","cost":3,"warnings":true}`)
	ask("/v1/check", `{"policy":"tokens","key":"warned","costs":{"month":950000},"warnings":true}`)
	ask("/v1/check", `{"policy":"shadow","key":"warned","warnings":true}`)
	ask("/v1/check", `{"together":[{"policy":"api","key":"together","cost":3},{"policy":"lower","request":{}}],"warnings":true}`)
	ask("/v1/peek", `{"policy":"tokens","key":"t"}`)
	ask("/v1/checks", `{"checks":[{"policy":"tokens","key":"t"},{"policy":"none","key":"t"},{"together":[{"policy":"tokens","key":"t"}]}]}`)
	for _, path := range []string{"/v1/check?denied=status", "/v1/peek?denied=status", "/v1/reserve?denied=status"} {
		if status, _ := d.post(s, path, `{"policy":"keys","request":{}}`); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, status)
		}
		if status, _ := d.post(s, path, `{"policy":"api","key":"x","cost":7}`); status != http.StatusTooManyRequests {
			t.Errorf("%s: %d", path, status)
		}
	}
	reserve := func() string {
		return ask("/v1/reserve", `{"policy":"tokens","request":{"values":{"tenant":"acme"}},"costs":{"tokens":10}}`)["reservation"].(string)
	}
	settled := `{"reservation":"` + reserve() + `","cost":4,"costs":{"month":1},"outcome":{"status":500,"canceled":false,"timed_out":true,"panicked":true,"waited_ms":1,"duration_ms":2}}`
	ask("/v1/settle", settled)
	ask("/v1/checks", `{"checks":[{"policy":"running","key":"h","hold":true},{"policy":"tokens","request":{"values":{"tenant":"acme"}},"hold":true}]}`)
	held := ask("/v1/check", `{"policy":"estimated","request":{"values":{"tenant":"held"}},"hold":true}`)["reservation"]
	renewed := ask("/v1/renew", fmt.Sprintf(`{"reservation":%q}`, held))["reservation"]
	ask("/v1/renew", fmt.Sprintf(`{"reservation":%q}`, renewed)) // which voids the one before
	ask("/v1/refund", `{"reservation":"`+reserve()+`"}`)
	charge := `{"policy":"tokens","request":{"values":{"tenant":"acme"}},"costs":{"tokens":10},"operation":"c"}`
	ask("/v1/charge", charge)

	for _, c := range []struct {
		status     int
		path, body string
		headers    []string
	}{
		{409, "/v1/settle", settled, nil},
		{409, "/v1/renew", fmt.Sprintf(`{"reservation":%q}`, held), nil},
		{409, "/v1/charge", charge, nil},
		{422, "/v1/peek", `{"policy":"api","key":"a","hold":true}`, nil},
		{422, "/v1/check", `{"policy":"api","key":"a","at_most":2,"operation":"o"}`, nil},
		{422, "/v1/peek", `{"policy":"api","key":"a","warnings":true}`, nil},
		{422, "/v1/settle", `{"reservation":"AAAA"}`, nil},
		{422, "/v1/check", `{"policy":"tokens","key":"t","costs":{"tokns":1}}`, nil},
		{422, "/v1/check", `{"together":[{"policy":"api","request":{"client_ip":"192.0.2.8","values":{"tenant":"a","plan":"pro"}}},{"policy":"api","request":{"client_ip":"192.0.2.8","values":{"tenant":"a"}}}]}`, nil},
		{404, "/v1/check", `{"policy":"nobody","key":"t"}`, nil},
		{403, "/v1/check", `{"policy":"tokens","key":"t"}`, []string{"Origin", "http://127.0.0.1"}},
		{403, "/v1/check", `{"policy":"tokens","key":"t"}`, []string{"Sec-Fetch-Site", "same-origin"}},
		{415, "/v1/check", `{"policy":"tokens","key":"t"}`, []string{"Content-Type", "text/plain"}},
		{415, "/v1/check", `{"policy":"tokens","key":"t"}`, []string{"Content-Encoding", "gzip"}},
		{413, "/v1/check", `{"policy":"tokens","key":"` + strings.Repeat("x", 70<<10) + `"}`, nil},
	} {
		if status, got := d.post(s, c.path, c.body, c.headers...); status != c.status || got["detail"] == "" {
			t.Errorf("%s %.200s: %d %v, want %d", c.path, c.body, status, got, c.status)
		}
	}
	for _, body := range []string{
		``, `[]`, `{}`, `null`, `{"policy":"api"}`, `{"policy":"api","key":"a","request":{}}`, `{"policy":"","key":"a"}`, `{"policy":"api","key":""}`,
		`{"policy":"api","key":"a","cost":-1}`, `{"policy":"api","key":"a","cost":1.5}`, `{"policy":"api","key":"a","Cost":1}`, `{"policy":"api","key":"a","cots":1}`,
		`{"policy":"api","key":"a","timeout_ms":0}`, `{"policy":"api","key":"a","timeout_ms":10001}`, `{"policy":"api","key":"a","operation":""}`,
		`{"policy":"api","request":{"path":"/a?b"}}`, `{"policy":"api","request":{"values":{"a":1.5}}}`, `{"policy":"api","request":{"values":{"a":null}}}`,
		`{"policy":"api","request":{"headers":{"a":{}}}}`, `{"policy":"api","request":{"port":1}}`, `{"together":[]}`, `{"together":[{"policy":"api"}]}`,
		`{"together":[{"policy":"api","key":"a","operation":"o"}]}`, `{"together":[{"policy":"api","key":"a"}],"policy":"api"}`,
		"{\"policy\":\"a\\u0000b\",\"key\":\"a\"}",
		`{"policy":"api","key":"a","at_most":-1}`, `{"policy":"api","key":"a","warnings":1}`, `{"policy":"api","key":"a","at_most":1,"cost":1}`,
		`{"policy":"api","key":"a","at_most":1,"costs":{"client":1}}`, `{"together":[{"policy":"api","key":"a","at_most":1}]}`,
	} {
		if status, got := d.post(s, "/v1/check", body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %v, want 400", body, status, got)
		}
	}
	out := newService(t, func(c *service.Config) { c.Store = failing{core.NewMemory()} })
	for _, c := range []struct {
		status     int
		path, body string
	}{
		{200, "/v1/check", `{"policy":"api","key":"a"}`},
		{200, "/v1/check", `{"policy":"closed","key":"a"}`},
		{503, "/v1/check?denied=status", `{"policy":"closed","key":"a"}`},
		{503, "/v1/peek", `{"policy":"api","key":"a"}`},
		{503, "/v1/charge", `{"policy":"api","key":"a"}`},
	} {
		if status, got := d.post(out, c.path, c.body); status != c.status {
			t.Errorf("%s, without a store: %d %v", c.path, status, got)
		}
	}
	d.everyFieldWasSeen(t)
}

// everyFieldWasSeen fails for fields that are described and that no call or answer had, and for paths that were not answered.
func (d *describedAs) everyFieldWasSeen(t *testing.T) {
	t.Helper()
	text := must.Get(os.ReadFile("../../../service/openapi.json"))(t)
	var of struct {
		Paths      map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	must.OK(t, json.Unmarshal(text, &of))
	var missing []string
	for schema, s := range of.Components.Schemas {
		for name := range s.Properties {
			if !d.seen[name] {
				missing = append(missing, schema+"."+name)
			}
		}
	}
	for path, methods := range of.Paths {
		if methods["post"] != nil && !d.seen[path] {
			missing = append(missing, "an answer of "+path)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("no call and no answer has had %v", missing)
	}
}
