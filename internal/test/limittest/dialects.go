package limittest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// told returns the response headers about limits, except Retry-After, in the order of
// core.ExposeHeaders.
func (e *env) told(r response) string {
	e.Helper()
	var lines []string
	for _, name := range core.ExposeHeaders() {
		if value := e.only(r, http.CanonicalHeaderKey(name)); value != "" && name != "Retry-After" {
			lines = append(lines, name+": "+value)
		}
	}
	return strings.Join(lines, "\n")
}

var dialects = []scenario{
	{"limits are told in the dialects that were asked for", func(e *env) {
		const (
			draft11 = "RateLimit: \"api\";r=4;t=2880\nRateLimit-Policy: \"api\";q=5;w=3600"
			draft07 = "RateLimit: limit=5, remaining=4, reset=720\nRateLimit-Policy: 5;w=3600"
			draft03 = "RateLimit-Limit: 5;w=3600\nRateLimit-Remaining: 4\nRateLimit-Reset: 720"
			delta   = "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 4\nX-RateLimit-Reset: 720"
		)
		for _, tt := range []struct {
			dialects core.Headers
			want     []string
		}{
			{0, []string{draft11}},
			{core.Draft11, []string{draft11}},
			{core.Draft07, []string{draft07}},
			{core.Draft03, []string{draft03}},
			{core.XRateLimitDelta, []string{delta}},
			{core.Draft11 | core.Draft03 | core.XRateLimitDelta, []string{draft11, draft03, delta}},
			{core.Draft07 | core.XRateLimitDelta, []string{draft07, delta}},
		} {
			s := e.serve(App{Layers: e.configured(core.Config{
				Headers: tt.dialects, Limits: []core.Limit{core.PerHour(5).By(keyfuncs.Everyone()).Named("api")},
			})})
			equal(e, fmt.Sprintf("dialects %b", tt.dialects), e.told(s.get("/")), strings.Join(tt.want, "\n"))
		}
	}},
	{"X-RateLimit-Reset is seconds since the epoch", func(e *env) {
		s := e.serve(App{Layers: e.configured(core.Config{
			Headers: core.XRateLimit, Limits: []core.Limit{core.PerHour(5).By(keyfuncs.Everyone())},
		})})
		before := time.Now().Unix()
		r := s.get("/")
		after := time.Now().Unix() + 1
		at, err := strconv.ParseInt(e.only(r, "X-Ratelimit-Reset"), 10, 64)
		if err != nil || at < before+720 || at > after+720 {
			e.Errorf("X-RateLimit-Reset: %d, %v; want %d to %d", at, err, before+720, after+720)
		}
		equal(e, "the rest", strings.TrimSuffix(e.told(r), fmt.Sprint(at)), "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 4\nX-RateLimit-Reset: ")
	}},
	{"older dialects tell of the limit that binds", func(e *env) {
		s := e.serve(App{Layers: e.configured(core.Config{
			Headers: core.Draft03 | core.XRateLimitDelta,
			Limits: []core.Limit{
				core.PerHour(50).By(keyfuncs.Everyone()).Named("roomy"),
				core.PerHour(1).By(keyfuncs.Header("X-Tenant")).Named("shadow").Shadow(),
				core.PerHour(2).By(keyfuncs.Header("X-Tenant")).Named("tight"),
			},
		})})
		equal(e, "first", e.told(s.get("/")), "RateLimit-Limit: 2;w=3600\nRateLimit-Remaining: 1\nRateLimit-Reset: 1800\n"+
			"X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1800")
		s.get("/")
		r := s.get("/")
		e.denied("third", r)
		e.wait(r, 1800)
		equal(e, "RateLimit-Limit", e.only(r, "Ratelimit-Limit"), "2;w=3600")
		equal(e, "RateLimit-Remaining", e.only(r, "Ratelimit-Remaining"), "0")
		equal(e, "X-RateLimit-Limit", e.only(r, "X-Ratelimit-Limit"), "2")
		equal(e, "X-RateLimit-Remaining", e.only(r, "X-Ratelimit-Remaining"), "0")
	}},
	{"of two limiters older dialects tell of the tighter one, and draft 11 of both", func(e *env) {
		for _, tt := range []struct {
			dialects     core.Headers
			outer, inner int64
			want         string
		}{
			{core.Draft11, 2, 5, "RateLimit: \"outer\";r=1;t=1800, \"inner\";r=4;t=2880\nRateLimit-Policy: \"outer\";q=2;w=3600, \"inner\";q=5;w=3600"},
			{core.Draft07, 2, 5, "RateLimit: limit=2, remaining=1, reset=1800\nRateLimit-Policy: 2;w=3600"},
			{core.Draft07, 5, 2, "RateLimit: limit=2, remaining=1, reset=1800\nRateLimit-Policy: 2;w=3600"},
			{core.Draft03, 2, 5, "RateLimit-Limit: 2;w=3600\nRateLimit-Remaining: 1\nRateLimit-Reset: 1800"},
			{core.Draft03, 5, 2, "RateLimit-Limit: 2;w=3600\nRateLimit-Remaining: 1\nRateLimit-Reset: 1800"},
			{core.XRateLimitDelta, 2, 5, "X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1800"},
			{core.XRateLimitDelta, 5, 2, "X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1800"},
		} {
			layer := func(name string, n int64) []Layer {
				return e.configured(core.Config{Headers: tt.dialects, Limits: []core.Limit{core.PerHour(n).By(keyfuncs.Everyone()).Named(name)}})
			}
			s := e.serve(App{Layers: layer("outer", tt.outer), Routes: []Route{
				{Method: "GET", Path: "/", Layers: layer("inner", tt.inner), Handle: hello},
			}})
			equal(e, fmt.Sprintf("dialects %b, %d around %d", tt.dialects, tt.outer, tt.inner), e.told(s.get("/")), tt.want)
		}
	}},
	{"limits are told when they are to be", func(e *env) {
		for _, tt := range []struct {
			when core.HeadersWhen
			told [4]bool // whether headers are sent with 9, 2 and 1 of 10 left, and on the denial
		}{
			{core.Always, [4]bool{true, true, true, true}},
			{core.NearLimit, [4]bool{false, true, true, true}},
			{core.OnDenial, [4]bool{false, false, false, true}},
			{core.Never, [4]bool{}},
		} {
			s := e.serve(App{Layers: e.configured(core.Config{
				HeadersWhen: tt.when, Headers: core.Draft11 | core.Draft03 | core.XRateLimit,
				Limits: []core.Limit{core.PerDay(10).By(keyfuncs.Everyone()).CostBy(func(r keyfuncs.Request) int64 {
					n, _ := strconv.ParseInt(header("X-Cost")(r), 10, 64)
					return n
				})},
			})})
			for i, cost := range []string{"1", "7", "1", "2"} {
				r := s.get("/", with("X-Cost", cost))
				what := fmt.Sprintf("HeadersWhen %d, request %d", tt.when, i+1)
				for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "Ratelimit-Remaining", "X-Ratelimit-Remaining"} {
					equal(e, what+": has "+name, e.only(r, name) != "", tt.told[i])
				}
				if i == 3 {
					e.denied(what, r)
					e.wait(r, 8640)
					equal(e, what+": body names the limit", strings.Contains(r.body, `"violated-policies":["default"]`), true)
				}
			}
		}
	}},
	{"a warning shows near the limit, and neither on denials only nor never", func(e *env) {
		for when, want := range []string{
			core.Always: `approaching limit; policy="default"; used=10%`, core.NearLimit: `approaching limit; policy="default"; used=10%`,
			core.OnDenial: "", core.Never: "",
		} {
			s := e.serve(App{Layers: e.configured(core.Config{
				HeadersWhen: core.HeadersWhen(when), Limits: []core.Limit{core.PerDay(10).By(keyfuncs.Everyone()).WarnAt(0.1)},
			})})
			r := s.get("/")
			equal(e, fmt.Sprintf("HeadersWhen %d: warning", when), e.only(r, "X-Ratelimit-Warning"), want)
			equal(e, fmt.Sprintf("HeadersWhen %d: RateLimit", when), e.only(r, "Ratelimit") != "", want != "")
		}
	}},
	{"an application's text of a denial is told as it is, with the decision at hand", func(e *env) {
		s := e.serve(App{
			Layers: e.configured(core.Config{
				Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Everyone()).Named("api")},
				Details: map[string]func(core.Decision) string{
					"de": func(d core.Decision) string {
						b, _ := d.Binding()
						return fmt.Sprintf("Das Limit „%s“ ist\n\"erschöpft\": <%v> & %d übrig.", b.Rule.Name, d.Allowed, b.Remaining)
					},
					"pt-BR": func(core.Decision) string { return "Limite excedido." },
				},
			}),
			Routes: []Route{{Method: "GET", Path: "/", Handle: hello}, {Method: "HEAD", Path: "/", Handle: hello}},
		})
		r := s.get("/", with("Accept-Language", "de"))
		equal(e, "Content-Language of an allowed response", e.only(r, "Content-Language"), "")
		equal(e, "body of an allowed response", r.body, "hello")
		const german = `"Das Limit „api“ ist\n\"erschöpft\": \u003cfalse\u003e \u0026 0 übrig."`
		for _, tt := range []struct{ accept, language, detail string }{
			{"de", "de", german},
			{"de-CH-1901, en;q=0.9", "de", german},
			{"fr, de;q=0.5, en;q=0.4", "de", german},
			{"PT-br", "pt-BR", `"Limite excedido."`},
			{"pt", "en", ""},
			{"en, de;q=0.9", "en", ""},
			{"de;q=0", "en", ""},
			{"*", "en", ""},
			{"\xff, ;;q=x", "en", ""},
			{strings.Repeat("xx,", 1000) + "de", "en", ""},
		} {
			r := s.get("/", with("Accept-Language", tt.accept))
			e.denied(tt.accept, r)
			wait := e.wait(r, 3600)
			want := problem(wait, `"api"`)
			if tt.detail != "" {
				want = strings.Replace(want, fmt.Sprintf(`"Rate limit exceeded. Retry in %d seconds."`, wait), tt.detail, 1)
			}
			equal(e, tt.accept[:min(len(tt.accept), 30)], r.body, want)
			equal(e, "Content-Language", e.only(r, "Content-Language"), tt.language)
			equal(e, "Vary", e.only(r, "Vary"), "Accept-Language")
			equal(e, "Content-Length", e.only(r, "Content-Length"), strconv.Itoa(len(r.body)))
		}
		r = s.do("HEAD", "/", with("Accept-Language", "de"))
		e.denied("HEAD", r)
		equal(e, "body of HEAD", r.body, "")
		equal(e, "Content-Language of HEAD", e.only(r, "Content-Language"), "de")
		equal(e, "Vary of HEAD", e.only(r, "Vary"), "Accept-Language")
	}},
	{"two limiters are told of by denials, errors, panics, streams and requests without a route", func(e *env) {
		s := e.serve(App{
			Layers: append(
				e.layer(core.PerDay(100).By(keyfuncs.Everyone()).Named("outer")),
				e.layer(core.PerDay(6).By(keyfuncs.Everyone()).Named("inner"))...,
			),
			Routes: []Route{
				{Method: "GET", Path: "/", Handle: hello},
				{Method: "GET", Path: "/error", Handle: func(c Call) { c.Reply(500, "oops") }},
				{Method: "GET", Path: "/panic", Handle: func(Call) { panic("on purpose, in a test") }},
				{Method: "GET", Path: "/stream", Handle: func(c Call) {
					n := 0
					c.Stream(func() (string, bool) { n++; return "line\n", n < 4 })
				}},
			},
		})
		base, client := s.server.Listen(e), e.client()
		for i, tt := range []struct {
			path   string
			status int
			body   string
		}{
			{"/", 200, "hello"},
			{"/error", 500, "oops"},
			{"/panic", 500, ""},
			{"/stream", 200, "line\nline\nline\n"},
			{"/nowhere", 404, ""},
			{"/", 200, "hello"},
			{"/", 429, ""},
			{"/panic", 429, ""},
			{"/stream", 429, ""},
			{"/nowhere", 429, ""},
		} {
			r := e.fetch(client, "GET", base+tt.path)
			equal(e, tt.path+": status", r.status, tt.status)
			if tt.body != "" {
				equal(e, tt.path+": body", r.body, tt.body)
			}
			equal(e, tt.path+": RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"outer";q=100;w=86400, "inner";q=6;w=86400`)
			e.remaining(tt.path, r, "outer", 99-i)
			e.remaining(tt.path, r, "inner", max(5-i, 0))
		}
	}},
}
