package limittest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

// failing returns a store that fails at once.
func (e *env) failing() *weblimittest.Store {
	e.Helper()
	s := e.moody()
	s.Fail()
	return s
}

// moody returns a store that fails on request, and of which nothing is logged.
func (e *env) moody() *weblimittest.Store {
	e.Helper()
	s := weblimittest.New(e)
	s.Registry().OnEvent(func(core.Event) {})
	return s
}

// decided is a handler that replies with the reason of the decision.
func decided(c Call) {
	d, _ := c.Decision()
	c.Reply(http.StatusOK, fmt.Sprint(d.Reason, ", ", d.Err != nil))
}

var reasons = []Route{{Method: "GET", Path: "/", Handle: decided}}

// outages are scenarios with stores that fail.
var outages = []scenario{
	{"in an outage Deny answers 503", func(e *env) {
		s := e.serve(App{
			Outer:  http.Header{"Etag": {`"v1"`}},
			Layers: []Layer{{Limiter: e.limiterOn(e.failing(), core.PerHour(5).By(keyfuncs.Everyone()).Named("api").OnOutage(core.Deny))}},
			Routes: reasons,
		})
		r := s.get("/")
		equal(e, "status", r.status, http.StatusServiceUnavailable)
		equal(e, "Retry-After", e.only(r, "Retry-After"), "1")
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"api";q=5;w=3600`)
		equal(e, "RateLimit", e.only(r, "Ratelimit"), "")
		equal(e, "Content-Type", e.only(r, "Content-Type"), "application/problem+json")
		equal(e, "Cache-Control", e.only(r, "Cache-Control"), "no-store")
		equal(e, "ETag", e.only(r, "Etag"), "")
		equal(e, "body", r.body, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"Service temporarily unavailable. Retry in 1 second."}`)
	}},
	{"in an outage Allow lets requests through", func(e *env) {
		s := e.serve(App{
			Layers: []Layer{{Limiter: e.limiterOn(e.failing(), core.PerHour(1).By(keyfuncs.Everyone()).Named("api").OnOutage(core.Allow))}},
			Routes: reasons,
		})
		for range 5 {
			r := s.get("/")
			equal(e, "status", r.status, http.StatusOK)
			equal(e, "body", r.body, "outage allowed, true")
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"api";q=1;w=3600`)
			equal(e, "RateLimit", e.only(r, "Ratelimit"), "")
		}
	}},
	{"in an outage all dialects name the local share", func(e *env) {
		minute := core.PerMinute(300).By(keyfuncs.Everyone()).Named("all")
		for what, limit := range map[string]core.Limit{
			"plain": minute,
			"tiers": minute.Tiers(func(keyfuncs.Request) core.Limit { return core.PerMinute(300) }),
		} {
			l, err := core.New(core.Config{Store: e.failing(), Replicas: 3, Headers: core.Draft11 | core.XRateLimit | core.Draft03, Limits: []core.Limit{limit}})
			if err != nil {
				e.Fatal(err)
			}
			r := e.serve(App{Layers: []Layer{{Limiter: l}}}).get("/")
			equal(e, what+": RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"all";q=100;w=60`)
			e.remaining(what, r, "all", 99)
			equal(e, what+": RateLimit-Limit", e.only(r, "Ratelimit-Limit"), "100;w=60")
			equal(e, what+": X-RateLimit-Limit", e.only(r, "X-Ratelimit-Limit"), "100")
			equal(e, what+": X-RateLimit-Remaining", e.only(r, "X-Ratelimit-Remaining"), "99")
		}
	}},
	{"in an outage all dialects name the limits of Fallback", func(e *env) {
		l, err := core.New(core.Config{
			Store: e.failing(), Replicas: 3, Headers: core.Draft11 | core.XRateLimit,
			Limits:   []core.Limit{core.PerMinute(300).By(keyfuncs.Everyone()).Named("all")},
			Fallback: core.Fallback{Limits: []core.Limit{core.PerMinute(7).By(keyfuncs.Everyone()).Named("reduced")}},
		})
		if err != nil {
			e.Fatal(err)
		}
		r := e.serve(App{Layers: []Layer{{Limiter: l}}}).get("/")
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"reduced";q=7;w=60`)
		e.remaining("fallback", r, "reduced", 6)
		equal(e, "X-RateLimit-Limit", e.only(r, "X-Ratelimit-Limit"), "7")
	}},
	{"in an outage a limit is counted locally unless it says otherwise", func(e *env) {
		s := e.serve(App{
			Layers: []Layer{{Limiter: e.limiterOn(e.failing(), core.PerHour(2).By(keyfuncs.ClientIP()).Named("api"))}},
			Routes: reasons,
		})
		for range 2 {
			equal(e, "body", s.get("/").body, "outage local, true")
		}
		r := s.get("/")
		e.denied("third", r)
		equal(e, "body", r.body, problem(e.wait(r, 1800), `"api"`))
		e.passes("another client", s.get("/", from("203.0.113.9:99")))
	}},
	{"a store that does not answer in time is an outage", func(e *env) {
		store := e.moody()
		store.Hang()
		l, err := core.New(core.Config{
			Store:   store,
			Limits:  []core.Limit{core.PerHour(5).By(keyfuncs.Everyone()).OnOutage(core.Allow)},
			Timeout: 5 * time.Millisecond,
		})
		if err != nil {
			e.Fatal(err)
		}
		s := e.serve(App{Layers: []Layer{{Limiter: l}}, Routes: reasons})
		equal(e, "body", s.get("/").body, "outage allowed, true")
	}},
	{"the Denied hook tells an outage from a limit", func(e *env) {
		s := e.serve(App{Layers: []Layer{{
			Limiter: e.limiterOn(e.failing(), core.PerHour(5).By(keyfuncs.Everyone()).OnOutage(core.Deny)),
			Denied:  func(d core.Decision) (int, string) { return d.Status(), d.Reason.String() },
		}}})
		r := s.get("/")
		equal(e, "status", r.status, http.StatusServiceUnavailable)
		equal(e, "body", r.body, "outage denied")
	}},
}
