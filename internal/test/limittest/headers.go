package limittest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

var headers = []scenario{
	{"an allowed response has both fields", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerHour(5).By(keyfuncs.Everyone()).Named("api"))})
		for _, want := range []string{`"api";r=4;t=2880`, `"api";r=3;t=2160`} {
			r := s.get("/")
			equal(e, "status", r.status, http.StatusOK)
			equal(e, "body", r.body, "hello")
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"api";q=5;w=3600`)
			equal(e, "RateLimit", e.only(r, "Ratelimit"), want)
			equal(e, "Retry-After", e.only(r, "Retry-After"), "")
		}
	}},
	{"several limits are several members of one field", func(e *env) {
		s := e.serve(App{Layers: e.layer(
			core.PerHour(5).By(keyfuncs.Everyone()).Named("api"),
			core.PerDay(100).Burst(200).By(keyfuncs.ClientIP()).Named("client"),
			core.Per(10, 500e6).By(keyfuncs.ClientIP()).Named("half-second"),
		)})
		r := s.get("/")
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"api";q=5;w=3600, "client";q=200;w=172800, "half-second";q=10`)
		equal(e, "RateLimit", e.only(r, "Ratelimit"), `"api";r=4;t=2880, "client";r=199;t=171936, "half-second";r=9;t=1`)
	}},
	{"an error of the application has them too", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(core.PerHour(5).By(keyfuncs.Everyone()).Named("api")),
			Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) { c.Reply(http.StatusInternalServerError, "oops") }}},
		})
		r := s.get("/")
		equal(e, "status", r.status, http.StatusInternalServerError)
		equal(e, "RateLimit", e.only(r, "Ratelimit"), `"api";r=4;t=2880`)
	}},
	{"a request without a route has them too", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerHour(5).By(keyfuncs.Everyone()).Named("api"))})
		r := s.get("/nowhere")
		equal(e, "status", r.status, http.StatusNotFound)
		equal(e, "RateLimit", e.only(r, "Ratelimit"), `"api";r=4;t=2880`)
	}},
	{"two limiters on one request add members", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(core.PerHour(5).By(keyfuncs.Everyone()).Named("outer")),
			Routes: []Route{{
				Method: "GET", Path: "/", Handle: hello,
				Layers: e.layer(core.PerHour(2).By(keyfuncs.Everyone()).Named("inner")),
			}},
		})
		for _, want := range []string{
			`"outer";r=4;t=2880, "inner";r=1;t=1800`,
			`"outer";r=3;t=2160, "inner";r=0;t=N`,
			`"outer";r=2;t=1440, "inner";r=0;t=N`,
		} {
			r := s.get("/")
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"outer";q=5;w=3600, "inner";q=2;w=3600`)
			got := e.only(r, "Ratelimit")
			if strings.HasSuffix(want, "N") {
				got = got[:strings.LastIndexByte(got, '=')+1] + "N" // depends on the time
			}
			equal(e, "RateLimit", got, want)
		}
	}},
	{"a limit that is asked twice, with another cost, is one member", func(e *env) {
		per := core.PerHour(60).By(keyfuncs.ClientIP()).Named("rate")
		for _, dialects := range append(oneLimit, core.Draft11) {
			settings := e.with(core.Config{Headers: dialects})
			s := e.serve(App{
				Layers: []Layer{{With: settings, Limits: []core.Limit{all("all", 1000), per}}},
				Routes: []Route{{
					Method: "GET", Path: "/", Handle: hello,
					Layers: []Layer{{With: settings, Limits: []core.Limit{per.Cost(10), all("own", 500)}}},
				}},
			})
			for n, left := range []int{49, 38, 27, 16, 5, 4} { // 11 a request; the last is denied for the ten
				r := s.get("/")
				if denied := n == 5; denied != (r.status == http.StatusTooManyRequests) {
					e.Fatalf("request %d: status %d", n+1, r.status)
				}
				if dialects != core.Draft11 {
					e.binds("a limit asked twice", r, dialects, 60, left)
					continue
				}
				equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"all";q=1000;w=3600, "rate";q=60;w=3600, "own";q=500;w=3600`)
				e.remaining("a limit asked twice", r, "rate", left)
				equal(e, "members of RateLimit", strings.Count(e.only(r, "Ratelimit"), ";r="), 3)
			}
		}
	}},
	{"a limiter adds to what other middleware wrote before it", func(e *env) {
		limit := core.PerHour(5).By(keyfuncs.Everyone()).Named("api")
		s := e.serve(App{
			Outer:  http.Header{"Ratelimit-Policy": {`"gateway";q=9;w=1`}, "Ratelimit": {`"gateway";r=8;t=1`}},
			Layers: e.layer(limit),
		})
		r := s.get("/")
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"gateway";q=9;w=1, "api";q=5;w=3600`)
		equal(e, "RateLimit", e.only(r, "Ratelimit"), `"gateway";r=8;t=1, "api";r=4;t=2880`)
	}},
	{"the longer Retry-After is kept", func(e *env) {
		for outer, kept := range map[string]bool{"5": false, "3000": false, "7200": true, "soon": false} {
			s := e.serve(App{
				Outer:  http.Header{"Retry-After": {outer}},
				Layers: e.layer(core.PerHour(3).Cost(3).By(keyfuncs.Everyone())),
			})
			s.get("/")
			r := s.get("/")
			e.denied("second", r)
			if kept {
				equal(e, "Retry-After", e.only(r, "Retry-After"), outer)
			} else {
				e.wait(r, 3600)
			}
		}
	}},
	{"what one request is told does not reach the next", func(e *env) {
		s := e.serve(App{Layers: append(
			e.layer(core.PerDay(100).By(keyfuncs.Everyone()).Named("outer")),
			e.layer(core.PerDay(100).By(keyfuncs.Everyone()).Named("inner"))...,
		)})
		for i := range 20 {
			r := s.get("/")
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"outer";q=100;w=86400, "inner";q=100;w=86400`)
			equal(e, "RateLimit", e.only(r, "Ratelimit"), fmt.Sprintf(`"outer";r=%d;t=%d, "inner";r=%[1]d;t=%[2]d`, 99-i, (99-i)*864))
		}
	}},
}
