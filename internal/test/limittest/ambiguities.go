package limittest

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// twice are requests that name two clients. An application may read the first name,
// the last, or either.
var twice = []struct {
	what    string
	key     keyfuncs.Func
	path    string
	options []option
}{
	{"X-Tenant header", keyfuncs.Header("X-Tenant"), "/", []option{with("X-Tenant", "a"), with("X-Tenant", "b")}},
	{"X-Tenant header", keyfuncs.Header("X-Tenant"), "/", []option{with("X-Tenant", "a"), with("X-Tenant", "a")}},
	{"X-Tenant header", keyfuncs.Header("X-Tenant"), "/", []option{with("X-Tenant", ""), with("X-Tenant", "a")}},
	{"X-API-Key header", keyfuncs.APIKey("X-API-Key"), "/", []option{with("X-API-Key", "a"), with("X-API-Key", "b")}},
	{"Authorization header", keyfuncs.APIKey("Authorization"), "/", []option{with("Authorization", "Bearer a"), with("Authorization", "Bearer b")}},
	{"Authorization header", keyfuncs.APIKey("Authorization"), "/", []option{with("Authorization", "Bearer a b")}},
	{"API key", keyfuncs.APIKey(), "/", []option{with("X-API-Key", "a"), with("Authorization", "Bearer b")}},
	{"API key", keyfuncs.APIKey("X-API-Key", "?key"), "/?key=b", []option{with("X-API-Key", "a")}},
	{"key query parameter", keyfuncs.APIKey("?key"), "/?key=a&x=1&key=b", nil},
	{"key query parameter", keyfuncs.APIKey("?key"), "/?key=a&%6bey=a", nil},
	{"sid cookie", keyfuncs.Cookie("sid"), "/", []option{with("Cookie", "sid=a; sid=b")}},
	{"sid cookie", keyfuncs.Cookie("sid"), "/", []option{with("Cookie", "sid=a"), with("Cookie", "x=1; sid=b")}},
	{"X-API-Key header", keyfuncs.First(keyfuncs.User(UserLocal), keyfuncs.APIKey("X-API-Key"), keyfuncs.ClientIP()), "/", []option{with("X-API-Key", "a"), with("X-API-Key", "b")}},
	{"X-API-Key header", keyfuncs.Join(keyfuncs.User(UserLocal), keyfuncs.APIKey("X-API-Key")), "/", []option{with("X-API-Key", "a"), with("X-API-Key", "b")}},
	{"X-API-Key header", keyfuncs.APIKey("X-API-Key").WithSecret([]byte("0123456789abcdef")), "/", []option{with("X-API-Key", "a"), with("X-API-Key", "b")}},
}

// refused checks that a request was denied because it has what more than once.
func (e *env) refused(name string, r response, what string) {
	e.Helper()
	equal(e, name+": status", r.status, http.StatusBadRequest)
	equal(e, name+": Content-Type", e.only(r, "Content-Type"), core.ProblemType)
	equal(e, name+": Cache-Control", e.only(r, "Cache-Control"), "no-store")
	equal(e, name+": Retry-After", e.only(r, "Retry-After"), "")
	equal(e, name+": RateLimit", e.only(r, "Ratelimit"), "")
	equal(e, name+": body", r.body, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request must have one `+what+`."}`)
}

var ambiguities = []scenario{
	{"trap 50: what is sent twice is refused, whatever happens to requests without it", func(e *env) {
		for _, missing := range []core.MissingKey{core.ShareBucket, core.DenyRequest, core.SkipLimit} {
			store := e.counting()
			for i, tt := range twice {
				s := e.serve(App{SignIn: InLocals, Layers: e.configured(core.Config{Store: store, Limits: []core.Limit{
					core.PerHour(1).By(tt.key).Named(fmt.Sprint("limit", i)).OnMissingKey(missing),
				}})})
				for range 3 {
					e.refused(fmt.Sprintf("%d: %s", i, tt.what), s.get(tt.path, tt.options...), tt.what)
				}
				r := s.do("HEAD", tt.path, tt.options...)
				equal(e, "status of HEAD", r.status, http.StatusBadRequest)
				equal(e, "body of HEAD", r.body, "")
			}
			equal(e, "requests that reached the store", store.asked(), 0)
		}
	}},
	{"trap 50: a credential on two lines never exceeds its limit", func(e *env) {
		const quota, tries = 10, 40
		either := keyfuncs.First(keyfuncs.User(UserLocal), keyfuncs.APIKey("X-API-Key"), keyfuncs.ClientIP())
		for _, limit := range []core.Limit{
			core.PerMinute(quota).By(either),
			core.PerMinute(quota).By(either).OnMissingKey(core.SkipLimit),
			core.PerMinute(quota).By(keyfuncs.APIKey("X-API-Key")),
			core.PerMinute(quota).By(keyfuncs.APIKey("X-API-Key")).OnMissingKey(core.SkipLimit),
			core.PerDay(quota).By(keyfuncs.APIKey()).OnMissingKey(core.SkipLimit),
		} {
			var ran atomic.Int64
			s := e.serve(App{SignIn: InLocals, Layers: e.layer(limit), Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
				ran.Add(1)
				hello(c)
			}}}})
			base := s.server.Listen(e)
			for i := range tries {
				lines := [][]string{
					{"X-API-Key: s3cret"},
					{"X-API-Key: s3cret", "X-API-Key: s3cret"},
					{"X-API-Key: s3cret", fmt.Sprint("x-api-key: ", i)},
					{fmt.Sprint("X-API-KEY: ", i), "X-API-Key: s3cret"},
				}[i%4]
				e.send(base, plainRequest(lines...))
			}
			equal(e, "handlers that ran", ran.Load(), quota)
		}
	}},
	{"a cookie that is sent twice with one value is one", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerHour(1).By(keyfuncs.Cookie("sid")))})
		e.passes("twice", s.get("/", with("Cookie", "sid=a; sid=a")))
		e.denied("once", s.get("/", with("Cookie", "sid=a")))
	}},
	{"a limit in shadow mode reports an ambiguous key and lets it pass", func(e *env) {
		var d core.Decision
		s := e.serve(App{
			Layers: e.layer(
				core.PerHour(1).By(keyfuncs.Header("X-Tenant")).Named("trial").Shadow(),
				core.PerHour(9).By(keyfuncs.Everyone()).Named("all"),
			),
			Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
				d, _ = c.Decision()
				hello(c)
			}}},
		})
		for range 3 {
			equal(e, "status", s.get("/", with("X-Tenant", "a"), with("X-Tenant", "b")).status, http.StatusOK)
			equal(e, "reason", d.Reason, core.ReasonShadowed)
		}
		equal(e, "status", s.get("/", with("X-Tenant", "a")).status, http.StatusOK)
		equal(e, "reason", d.Reason, core.ReasonWithinLimit)
		e.remaining("after four", s.get("/", with("X-Tenant", "b")), "all", 4)
	}},
	{"an ambiguous operation is refused under OncePer", func(e *env) {
		s := e.serve(App{Layers: e.layer(
			core.PerHour(5).By(keyfuncs.Everyone()).Named("all").OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour),
		)})
		e.refused("two operations", s.get("/", with("Idempotency-Key", "a"), with("Idempotency-Key", "b")), "Idempotency-Key header")
		e.remaining("one operation", s.get("/", with("Idempotency-Key", "a")), "all", 4)
	}},
	{"a bypass token on two lines exempts nobody", func(e *env) {
		s := e.serve(App{Layers: e.configured(core.Config{
			Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())},
			Bypass: []keyfuncs.Condition{keyfuncs.Tokens("X-Bypass-Token", bypassToken)},
		})})
		e.passes("the token", s.get("/", with("X-Bypass-Token", bypassToken)))
		e.passes("twice", s.get("/", with("X-Bypass-Token", bypassToken), with("X-Bypass-Token", bypassToken)))
		e.denied("twice again", s.get("/", with("X-Bypass-Token", bypassToken), with("X-Bypass-Token", bypassToken)))
	}},
	{"the refusal of an ambiguous key is in the client's language and the hook's to write", func(e *env) {
		layers := e.configured(core.Config{
			Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Header("X-Tenant"))},
			Details: map[string]func(core.Decision) string{
				"de": func(d core.Decision) string { return "Bitte nur einmal: " + d.Ambiguous() },
			},
		})
		options := []option{with("X-Tenant", "a"), with("X-Tenant", "b"), with("Accept-Language", "de")}
		r := e.serve(App{Layers: layers}).get("/", options...)
		equal(e, "body", r.body, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"Bitte nur einmal: X-Tenant header"}`)
		equal(e, "Content-Language", e.only(r, "Content-Language"), "de")
		layers[0].Denied = func(d core.Decision) (int, string) { return d.Status(), d.Reason.String() + ": " + d.Ambiguous() }
		r = e.serve(App{Layers: layers}).get("/", options...)
		equal(e, "status", r.status, http.StatusBadRequest)
		equal(e, "body", r.body, "ambiguous key: X-Tenant header")
	}},
}

// Blanks around a value are not part of it (RFC 9110, section 5.5). Applications also
// trim characters that are not blanks there.
var blanks = []scenario{
	{"trap 51: blanks around a value make no new key", func(e *env) {
		const quota = 2
		around := []string{"", " ", "\t", "\t\t", " \t \t ", "\u00a0", "\u2003", "\u3000", "\u0085", "\t\u00a0 "}
		for _, tt := range []struct {
			key  keyfuncs.Func
			line func(blank, value string) string
		}{
			{keyfuncs.Header("X-Tenant"), func(blank, value string) string { return "X-Tenant:" + blank + value }},
			{keyfuncs.APIKey(), func(blank, value string) string { return "X-API-Key: " + blank + value }},
			{keyfuncs.APIKey(), func(blank, value string) string { return "Authorization: " + blank + "Bearer " + blank + value }},
			{keyfuncs.Cookie("sid"), func(blank, value string) string { return "Cookie: a=b; sid=" + value }},
		} {
			s := e.serve(App{Layers: e.layer(core.PerDay(quota).By(tt.key))})
			base, passed := s.server.Listen(e), 0
			for _, before := range around {
				for _, behind := range around {
					if e.send(base, plainRequest(tt.line(before, "s3cret"+behind))).status == http.StatusOK {
						passed++
					}
				}
			}
			// net/http drops cookies with bytes outside ASCII, so these requests have none
			// and share a bucket.
			if what := tt.key.Kind(); what == "cookie.sid" {
				if passed > 2*quota {
					e.Errorf("%s: %d passed, want at most %d", what, passed, 2*quota)
				}
				continue
			}
			equal(e, tt.key.Kind()+": passed", passed, quota)
		}
	}},
	{"trap 51: a blank is no value", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerDay(1).By(keyfuncs.Header("X-Tenant")))})
		base := s.server.Listen(e)
		e.passes("none", e.send(base, plainRequest()))
		for _, blank := range []string{"", " ", "\t", "\u00a0", " \u3000\t"} {
			e.denied(fmt.Sprintf("%q", blank), e.send(base, plainRequest("X-Tenant: "+blank)))
		}
	}},
}
