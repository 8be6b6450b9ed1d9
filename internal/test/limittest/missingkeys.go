package limittest

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// without are requests that lack a key, and how that is answered.
var without = []struct {
	key       keyfuncs.Func
	what      string
	challenge string // "" for 400
}{
	{keyfuncs.User(UserLocal), "authenticated user", "Bearer"},
	{keyfuncs.Tenant("tenant"), "tenant", "Bearer"},
	{keyfuncs.APIKey(), "API key", `Bearer, ApiKey in="header", name="X-API-Key"`},
	{keyfuncs.APIKey("X-API-Key"), "API key", `ApiKey in="header", name="X-API-Key"`},
	{keyfuncs.APIKey("Authorization").WithSecret([]byte("0123456789abcdef")), "API key", "Bearer"},
	{keyfuncs.APIKey("?key"), "API key", `ApiKey in="query", name="key"`},
	{keyfuncs.Header("X-Tenant"), "X-Tenant header", ""},
	{keyfuncs.Cookie("sid"), "sid cookie", ""},
	{keyfuncs.Custom("plan", func(keyfuncs.Request) string { return "" }), "plan", ""},
	{keyfuncs.ClientIP(keyfuncs.HopCount(1)), "client address", ""},
	{keyfuncs.Join(keyfuncs.ClientIP(), keyfuncs.User(UserLocal)), "authenticated user", "Bearer"},
	{keyfuncs.Join(keyfuncs.Header("X-Tenant"), keyfuncs.User(UserLocal)), "X-Tenant header", ""},
	{keyfuncs.First(keyfuncs.User(UserLocal), keyfuncs.APIKey("Authorization")), "authenticated user or API key", "Bearer"},
}

var missingKeys = []scenario{
	{"a request without the key is denied, if the limit says so", func(e *env) {
		store := e.counting()
		s := e.serve(App{Layers: e.configured(core.Config{Store: store, Limits: []core.Limit{
			core.PerHour(9).By(keyfuncs.Everyone()).Named("all"),
			core.PerHour(5).By(keyfuncs.Header("X-Tenant")).Named("tenant").OnMissingKey(core.DenyRequest),
		}})})
		for _, options := range [][]option{nil, {with("X-Tenant", "")}, {with("X-Tenant", " ")}} {
			r := s.get("/", options...)
			equal(e, "status", r.status, http.StatusBadRequest)
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"all";q=9;w=3600, "tenant";q=5;w=3600`)
			equal(e, "RateLimit", e.only(r, "Ratelimit"), "")
			equal(e, "Retry-After", e.only(r, "Retry-After"), "")
			equal(e, "Content-Type", e.only(r, "Content-Type"), core.ProblemType)
			equal(e, "Cache-Control", e.only(r, "Cache-Control"), "no-store")
			equal(e, "body", r.body, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request has no X-Tenant header."}`)
		}
		equal(e, "requests that reached the store", store.asked(), 0)
		r := s.get("/", with("X-Tenant", "a"))
		equal(e, "status", r.status, 200)
		e.remaining("with a key", r, "all", 8)
		e.remaining("with a key", r, "tenant", 4)
	}},
	{"a missing credential is a 401 that asks for it, any other missing key a 400, and never a 429", func(e *env) {
		for i, tt := range without {
			s := e.serve(App{Layers: e.configured(core.Config{HeadersWhen: core.Never, Limits: []core.Limit{
				core.PerHour(1).By(tt.key).Named("limit").OnMissingKey(core.DenyRequest),
			}})})
			name, status, title := fmt.Sprintf("%d: %s", i, tt.what), http.StatusBadRequest, "Bad Request"
			if tt.challenge != "" {
				status, title = http.StatusUnauthorized, "Unauthorized"
			}
			// What else a client sends is not in the answer.
			for _, method := range []string{"GET", "HEAD", "GET"} {
				r := s.do(method, "/?secret=s3cr3t", with("X-Other", "s3cr3t"), with("Cookie", "other=s3cr3t"))
				equal(e, name+": status", r.status, status)
				equal(e, name+": WWW-Authenticate", e.only(r, "Www-Authenticate"), tt.challenge)
				equal(e, name+": Retry-After", e.only(r, "Retry-After"), "")
				body := fmt.Sprintf(`{"type":"about:blank","title":%q,"status":%d,"detail":"The request has no %s."}`, title, status, tt.what)
				if method == "HEAD" {
					body = ""
				}
				equal(e, name+": body", r.body, body)
			}
		}
	}},
	{"a trusted proxy that names no client is noticed", func(e *env) {
		key := keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8"))
		for _, tt := range []struct {
			what    string
			options []option
			want    string
		}{
			{"a proxy without the header", []option{from(proxy)}, "X-Forwarded-For"},
			{"a proxy with it", []option{from(proxy), with("X-Forwarded-For", "192.0.2.7")}, ""},
			{"a peer that is no proxy", nil, ""},
		} {
			var seen atomic.Value
			s := e.serve(App{Layers: e.configured(core.Config{
				Silence: []core.Advice{"WL010"},
				Limits:  []core.Limit{core.PerHour(1).By(key)},
				Bypass: []keyfuncs.Condition{keyfuncs.Matches(func(r keyfuncs.Request) bool {
					seen.Store(strings.Clone(key.Unnamed(r)))
					return false
				})},
			})})
			e.passes(tt.what, s.get("/", tt.options...))
			equal(e, tt.what, seen.Load().(string), tt.want)
		}
	}},
	{"a proxy that no strategy lists is noticed, and one that a network of the bypass has", func(e *env) {
		key, peers := keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.9.0.0/16")), keyfuncs.FromCIDR("10.0.0.0/16")
		for _, tt := range []struct {
			what    string
			options []option
			want    string
		}{
			{"a private peer", []option{from(proxy), with("X-Forwarded-For", "192.0.2.7")}, "X-Forwarded-For through 10.0.0.1, exempt: true"},
			{"a public one", []option{from("198.51.100.1:4711"), with("X-Forwarded-For", "192.0.2.7")}, ", exempt: false"},
			{"a listed one", []option{from("10.9.0.1:4711"), with("X-Forwarded-For", "192.0.2.7")}, ", exempt: false"},
		} {
			var seen atomic.Value
			s := e.serve(App{Layers: e.configured(core.Config{
				Silence: []core.Advice{"WL012"},
				Limits:  []core.Limit{core.PerHour(1).By(key)},
				Bypass: []keyfuncs.Condition{keyfuncs.Matches(func(r keyfuncs.Request) bool {
					through := ""
					if header, addr, unlisted := key.Unlisted(r); unlisted {
						through = header + " through " + addr.String()
					}
					seen.Store(fmt.Sprintf("%s, exempt: %t", through, peers.FromPeer(r)))
					return false
				})},
			})})
			e.passes(tt.what, s.get("/", tt.options...))
			equal(e, tt.what, seen.Load().(string), tt.want)
		}
	}},
	{"the answer to a missing key can be chosen", func(e *env) {
		limits := []core.Limit{core.PerHour(1).By(keyfuncs.User(UserLocal)).Named("limit").OnMissingKey(core.DenyRequest)}
		for _, tt := range []struct {
			answer    core.MissingKeyAnswer
			status    int
			challenge string
		}{
			{core.MissingKeyAnswer{Challenge: `Basic realm="api"`}, 401, `Basic realm="api"`},
			{core.MissingKeyAnswer{Status: 403}, 403, ""},
			{core.MissingKeyAnswer{Status: 429}, 429, ""},
		} {
			s := e.serve(App{Layers: e.configured(core.Config{MissingKey: tt.answer, Limits: limits})})
			r := s.get("/")
			equal(e, "status", r.status, tt.status)
			equal(e, "WWW-Authenticate", e.only(r, "Www-Authenticate"), tt.challenge)
			contains(e, "body", r.body, fmt.Sprintf(`"status":%d,"detail":"The request has no authenticated user."`, tt.status))
		}
		var told atomic.Value
		layers := e.configured(core.Config{Limits: limits})
		layers[0].Denied = func(d core.Decision) (int, string) {
			told.Store(d)
			return d.Status(), "log in"
		}
		r := e.serve(App{Layers: layers}).get("/")
		equal(e, "status of the hook", r.status, http.StatusUnauthorized)
		equal(e, "body of the hook", r.body, "log in")
		equal(e, "WWW-Authenticate beside the hook", e.only(r, "Www-Authenticate"), "Bearer")
		d, _ := told.Load().(core.Decision)
		equal(e, "what the hook is told", d.Missing(), "authenticated user")
	}},
}
