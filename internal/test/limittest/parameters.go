package limittest

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// setHost sets the host that a request asks for.
func setHost(host string) option {
	return func(r *http.Request) *http.Request {
		r.Host = host
		return r
	}
}

func basic(credentials string) option {
	return with("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(credentials)))
}

// repeatedIn checks that a request was denied because of a value that it has twice.
func (e *env) repeatedIn(what string, r response, value string) {
	e.Helper()
	equal(e, what+": status", r.status, http.StatusBadRequest)
	contains(e, what+": body", r.body, value)
}

var parameters = []scenario{
	{"a parameter of the path is a key", func(e *env) {
		perItem := core.PerHour(1).By(keyfuncs.Param("id")).Named("item")
		s := e.serve(App{Routes: []Route{{Method: "GET", Path: "/items/{id}", Layers: e.layer(perItem), Handle: hello}}})
		for _, path := range []string{"/items/1", "/items/2", "/items/x-y_z"} {
			e.passes(path, s.get(path))
			e.denied(path, s.get(path+"?id=other"))
		}
		s = e.serve(App{Routes: []Route{{Method: "GET", Path: "/items/{id}", Layers: e.layer(core.PerHour(1).By(keyfuncs.Everyone()).Named("cost").
			CostBy(func(r keyfuncs.Request) int64 {
				n, _ := strconv.ParseInt(keyfuncs.ParamOf(r, "id"), 10, 64)
				return n
			})), Handle: hello}}})
		e.denied("2", s.get("/items/2"))
		e.passes("1", s.get("/items/1"))
	}},
	{"a parameter that the route lacks makes no key", func(e *env) {
		perItem := core.PerHour(1).By(keyfuncs.Param("item"), keyfuncs.ClientIP()).OnMissingKey(core.DenyRequest).Named("item")
		layers := e.configured(core.Config{Limits: []core.Limit{perItem}, Silence: []core.Advice{"WL008"}})
		s := e.serve(App{Routes: []Route{{Method: "GET", Path: "/items/{id}", Layers: layers, Handle: hello}}})
		equal(e, "allowed", s.get("/items/1").status < 400, false)
	}},
	{"a query parameter is a key, and two are ambiguous", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerHour(1).By(keyfuncs.Query("q")).Named("search"))})
		e.passes("a", s.get("/?q=a"))
		e.denied("a", s.get("/?p=1&q=%61"))
		e.passes("b", s.get("/?q=b"))
		e.passes("capitals are another", s.get("/?Q=a"))
		e.repeatedIn("two", s.get("/?q=c&q=d"), "q query parameter")
	}},
	{"the host is a key, whatever its case and port", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerHour(1).By(keyfuncs.Host()).Named("host"))})
		e.passes("first", s.get("/", setHost("shop.example")))
		for _, host := range []string{"Shop.Example", "shop.example:8080", "shop.example.", "SHOP.example.:443"} {
			e.denied(host, s.get("/", setHost(host), with("X-Forwarded-Host", "other.example")))
		}
		e.passes("another", s.get("/", setHost("other.example")))
		e.passes("IPv6", s.get("/", setHost("[2001:db8::1]:80")))
		e.denied("IPv6", s.get("/", setHost("[2001:db8::1]")))
	}},
	{"the user of Basic authentication is a key, whatever the password", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerHour(1).By(keyfuncs.BasicAuthUser()).Named("account"))})
		e.passes("first", s.get("/", basic("alice:1")))
		e.denied("another password", s.get("/", basic("alice:2:3")))
		e.denied("scheme in capitals", s.get("/", with("Authorization", "BASIC "+base64.StdEncoding.EncodeToString([]byte("alice:")))))
		e.passes("another user", s.get("/", basic("bob:1")))
		e.repeatedIn("two", s.get("/", basic("carol:1"), basic("dave:1")), "Authorization header")
		e.passes("no user", s.get("/"))
		for what, options := range map[string][]option{
			"empty name": {basic(":x")}, "no colon": {basic("erin")}, "another scheme": {with("Authorization", "Bearer erin:x")},
			"no base64": {with("Authorization", "Basic erin:x")}, "two blanks": {with("Authorization", "Basic  ZXJpbjp4")},
		} {
			e.denied(what+" shares the bucket of those without", s.get("/", options...))
		}
	}},
	{"a header on two lines that a function reads is answered with 400", func(e *env) {
		plan := func(r keyfuncs.Request) bool { return keyfuncs.HeaderOf(r, "X-Plan") == "premium" }
		premium := keyfuncs.Matches(plan)
		tiered := all("limit", 10).Tiers(func(r keyfuncs.Request) core.Limit {
			if plan(r) {
				return core.PerHour(20)
			}
			return core.Limit{}
		})
		costly := all("limit", 10).CostBy(func(r keyfuncs.Request) int64 {
			n, err := strconv.ParseInt(keyfuncs.HeaderOf(r, "X-Plan"), 10, 64)
			if err != nil {
				return -1
			}
			return n
		})
		twice := []option{with("X-Plan", "1"), with("X-Plan", "premium")}
		for what, limit := range map[string]core.Limit{
			"Tiers": tiered, "CostBy": costly, "When": all("limit", 10).When(premium), "Unless": all("limit", 10).Unless(premium),
			"When of several": all("limit", 10).When(keyfuncs.Any(keyfuncs.Methods("POST"), keyfuncs.Not(premium))),
			"KeepFree":        all("limit", 10).KeepFree(0.5, premium),
		} {
			s := e.serve(App{Layers: e.layer(limit)})
			e.repeatedIn(what, s.get("/", twice...), "X-Plan header")
			e.passes(what, s.get("/", with("X-Plan", "1")))
			shadow := e.serve(App{Layers: e.layer(limit.Shadow())})
			e.passes(what+" in shadow mode", shadow.get("/", twice...))
		}
		s := e.serve(App{Layers: e.configured(core.Config{
			Limits: []core.Limit{all("limit", 1)}, Bypass: []keyfuncs.Condition{premium, keyfuncs.All(keyfuncs.Methods("GET"), keyfuncs.Not(keyfuncs.Matches(
				func(r keyfuncs.Request) bool { return keyfuncs.HeaderOf(r, "X-External") == "" })))},
		})})
		for range 3 {
			e.silent("bypassed", s.get("/", with("X-Plan", "premium")))
			e.silent("bypassed", s.get("/", with("X-External", "yes")))
		}
		e.passes("with two", s.get("/", twice...))
		e.denied("with two", s.get("/", twice...))
		e.denied("with two", s.get("/", with("X-External", "a"), with("X-External", "b")))
	}},
}
