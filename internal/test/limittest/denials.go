package limittest

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// problem is the body of a 429.
func problem(retryAfter int, violated string) string {
	return fmt.Sprintf(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,`+
		`"detail":"Rate limit exceeded. Retry in %d seconds.","violated-policies":[%s]}`, retryAfter, violated)
}

var denials = []scenario{
	{"the last request passes, the next is denied and does not reach the handler", func(e *env) {
		var calls atomic.Int64
		s := e.serve(App{
			Layers: e.layer(core.PerHour(3).By(keyfuncs.Everyone()).Named("api")),
			Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
				calls.Add(1)
				hello(c)
			}}},
		})
		s.get("/")
		s.get("/")
		last := s.get("/")
		equal(e, "status of the last", last.status, http.StatusOK)
		e.remaining("last", last, "api", 0)
		equal(e, "Retry-After of the last", e.only(last, "Retry-After"), "")
		for range 2 {
			r := s.get("/")
			equal(e, "status", r.status, http.StatusTooManyRequests)
			wait := e.wait(r, 1200)
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"api";q=3;w=3600`)
			equal(e, "RateLimit", e.only(r, "Ratelimit"), fmt.Sprintf(`"api";r=0;t=%d`, wait))
			equal(e, "Content-Type", e.only(r, "Content-Type"), "application/problem+json")
			equal(e, "Cache-Control", e.only(r, "Cache-Control"), "no-store")
			equal(e, "body", r.body, problem(wait, `"api"`))
			equal(e, "Content-Length", e.only(r, "Content-Length"), strconv.Itoa(len(r.body)))
		}
		equal(e, "calls of the handler", calls.Load(), 3)
	}},
	{"when the third limit denies, the first two keep what they had", func(e *env) {
		s := e.serve(App{Layers: e.layer(
			core.PerHour(10).By(keyfuncs.Everyone()).Named("first"),
			core.PerHour(20).By(keyfuncs.ClientIP()).Named("second"),
			core.PerHour(1).By(keyfuncs.Header("X-Tenant")).Named("third"),
		)})
		e.passes("first", s.get("/", with("X-Tenant", "a")))
		for range 3 {
			r := s.get("/", with("X-Tenant", "a"))
			e.denied("again", r)
			e.remaining("denied", r, "first", 9)
			e.remaining("denied", r, "second", 19)
			e.remaining("denied", r, "third", 0)
			equal(e, "body", r.body, problem(e.wait(r, 3600), `"third"`))
		}
		r := s.get("/", with("X-Tenant", "b"))
		e.passes("another tenant", r)
		e.remaining("another tenant", r, "first", 8)
		e.remaining("another tenant", r, "second", 18)
	}},
	{"a denial names all limits that were exceeded and tells the longest wait", func(e *env) {
		s := e.serve(App{Layers: e.layer(
			core.PerHour(1).By(keyfuncs.Everyone()).Named("hourly"),
			core.PerHour(100).By(keyfuncs.Everyone()).Named("roomy"),
			core.PerDay(1).By(keyfuncs.Everyone()).Named("daily"),
		)})
		s.get("/")
		r := s.get("/")
		equal(e, "body", r.body, problem(e.wait(r, 86400), `"hourly","daily"`))
	}},
	{"a Denied that writes nothing answers as usual", func(e *env) {
		for limit, status := range map[core.OutageAction]int{core.Local: http.StatusTooManyRequests, core.Deny: http.StatusServiceUnavailable} {
			var heard atomic.Int64
			s := e.serve(App{Layers: []Layer{{
				Limiter: e.limiterOn(e.failing(), core.PerHour(1).By(keyfuncs.Everyone()).Named("api").OnOutage(limit)),
				Denied:  func(core.Decision) (int, string) { heard.Add(1); return 0, "" },
			}}})
			s.get("/")
			r := s.get("/")
			equal(e, "status", r.status, status)
			equal(e, "Content-Type", e.only(r, "Content-Type"), core.ProblemType)
			contains(e, "body", r.body, fmt.Sprintf(`"status":%d`, status))
			equal(e, "heard", heard.Load() > 0, true)
			equal(e, "status of a HEAD", s.do("HEAD", "/").status, status)
		}
	}},
	{"a Denied that writes a body and no status has the status of the decision", func(e *env) {
		layers := e.layer(core.PerHour(1).By(keyfuncs.Everyone()).Named("api"))
		layers[0].Denied = func(core.Decision) (int, string) { return 0, "slow down" }
		s := e.serve(App{Layers: layers})
		e.passes("first", s.get("/"))
		r := s.get("/")
		e.denied("second", r)
		equal(e, "body", r.body, "slow down")
	}},
	{"a Denied that answers 200 on purpose does", func(e *env) {
		layers := e.layer(core.PerHour(1).By(keyfuncs.Everyone()).Named("api"))
		layers[0].Denied = func(core.Decision) (int, string) { return http.StatusOK, "cached" }
		s := e.serve(App{Layers: layers})
		s.get("/")
		r := s.get("/")
		equal(e, "status", r.status, http.StatusOK)
		equal(e, "body", r.body, "cached")
	}},
	{"a denied HEAD has the headers and no body", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(core.PerHour(1).By(keyfuncs.Everyone()).Named("api")),
			Routes: []Route{
				{Method: "GET", Path: "/", Handle: hello},
				{Method: "HEAD", Path: "/", Handle: func(c Call) { c.Reply(http.StatusOK, "") }},
			},
		})
		s.get("/")
		r := s.do("HEAD", "/")
		e.denied("HEAD", r)
		wait := e.wait(r, 3600)
		equal(e, "RateLimit", e.only(r, "Ratelimit"), fmt.Sprintf(`"api";r=0;t=%d`, wait))
		equal(e, "Content-Type", e.only(r, "Content-Type"), "application/problem+json")
		equal(e, "body", r.body, "")
		// On a connection that is kept open, a body would be read as the next response.
		base, client := s.server.Listen(e), e.client()
		for range 2 {
			r = e.fetch(client, "HEAD", base+"/")
			e.denied("HEAD", r)
			equal(e, "body", r.body, "")
			e.denied("GET", e.fetch(client, "GET", base+"/"))
		}
	}},
	{"what outer middleware said of the response does not survive a denial", func(e *env) {
		outer := http.Header{
			"Etag":                {`"v1"`},
			"Last-Modified":       {"Mon, 02 Jan 2006 15:04:05 GMT"},
			"Content-Length":      {"3"},
			"Content-Disposition": {`attachment; filename="report.pdf"`},
			"Content-Type":        {"application/pdf"},
			"Cache-Control":       {"public, max-age=3600"},
			"Expires":             {"Mon, 02 Jan 2106 15:04:05 GMT"},
			"Cdn-Cache-Control":   {"max-age=3600"},
			"X-Request-Id":        {"42"},
		}
		for _, hook := range []bool{false, true} {
			layers := e.layer(core.PerHour(1).By(keyfuncs.Everyone()))
			if hook {
				layers[0].Denied = func(core.Decision) (int, string) { return 429, "slow down" }
			}
			s := e.serve(App{Outer: outer, Layers: layers, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) { c.Reply(200, "abc") }}}})
			r := s.get("/")
			equal(e, "ETag of an allowed response", e.only(r, "Etag"), `"v1"`)
			equal(e, "Cache-Control of an allowed response", e.only(r, "Cache-Control"), "public, max-age=3600")
			r = s.get("/")
			e.denied("second", r)
			for _, name := range []string{"Etag", "Last-Modified", "Content-Disposition", "Expires", "Cdn-Cache-Control"} {
				equal(e, name, e.only(r, name), "")
			}
			if length := e.only(r, "Content-Length"); length != "" {
				equal(e, "Content-Length", length, strconv.Itoa(len(r.body)))
			}
			equal(e, "Cache-Control", e.only(r, "Cache-Control"), "no-store")
			equal(e, "X-Request-Id", e.only(r, "X-Request-Id"), "42")
		}
	}},
	{"the Denied hook replaces the body and finds the headers set", func(e *env) {
		layers := e.layer(core.PerHour(1).By(keyfuncs.Everyone()).Named("api"))
		var told atomic.Value
		layers[0].Denied = func(d core.Decision) (int, string) {
			told.Store(d)
			return http.StatusTeapot, "slow down"
		}
		var calls atomic.Int64
		s := e.serve(App{Layers: layers, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			calls.Add(1)
			hello(c)
		}}}})
		r := s.get("/")
		equal(e, "body of an allowed response", r.body, "hello")
		r = s.get("/")
		equal(e, "status", r.status, http.StatusTeapot)
		equal(e, "body", r.body, "slow down")
		wait := e.wait(r, 3600)
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"api";q=1;w=3600`)
		equal(e, "RateLimit", e.only(r, "Ratelimit"), fmt.Sprintf(`"api";r=0;t=%d`, wait))
		equal(e, "calls of the handler", calls.Load(), 1)
		d, _ := told.Load().(core.Decision)
		equal(e, "Allowed", d.Allowed, false)
		equal(e, "Reason", d.Reason, core.ReasonLimitExceeded)
	}},
	{"a denial by the outer limiter charges nothing to the inner one", func(e *env) {
		inner := e.limiter(core.PerHour(10).By(keyfuncs.Everyone()).Named("inner"))
		s := e.serve(App{Layers: append(
			e.layer(core.PerHour(1).By(keyfuncs.Everyone()).Named("outer")),
			Layer{Limiter: inner},
		)})
		e.remaining("first", s.get("/"), "inner", 9)
		r := s.get("/")
		e.denied("second", r)
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"outer";q=1;w=3600`)
		d, err := inner.Peek(e.Context(), "all", 1)
		if err != nil {
			e.Fatal(err)
		}
		equal(e, "left of the inner limit", d.Results()[0].Remaining, 9)
	}},
}
