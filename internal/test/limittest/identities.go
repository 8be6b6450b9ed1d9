package limittest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// ask is one request of an identity scenario and whether it passes.
type ask struct {
	passes  bool
	method  string // GET unless set
	path    string // "/" unless set
	options []option
}

func first(path string, options ...option) ask {
	return ask{passes: true, path: path, options: options}
}

func again(path string, options ...option) ask {
	return ask{path: path, options: options}
}

func (a ask) by(method string) ask {
	a.method = method
	return a
}

// each allows one request per key.
func each(name string, key keyfuncs.Func, asks ...ask) scenario {
	return scenario{name, func(e *env) {
		s := e.serve(App{
			SignIn: InLocals,
			Layers: e.layer(core.PerHour(1).By(key)),
			Routes: resources,
		})
		e.try(s, asks)
	}}
}

func (e *env) try(s *site, asks []ask) {
	e.Helper()
	for i, a := range asks {
		if a.method == "" {
			a.method = "GET"
		}
		r := s.do(a.method, a.path, a.options...)
		what := fmt.Sprintf("request %d, %s %s", i+1, a.method, a.path)
		if a.passes {
			e.passes(what, r)
		} else {
			e.denied(what, r)
		}
	}
}

var resources = []Route{
	{Method: "GET", Path: "/", Handle: hello},
	{Method: "POST", Path: "/", Handle: hello},
	{Method: "GET", Path: "/items/{id}", Handle: hello},
	{Method: "POST", Path: "/items/{id}", Handle: hello},
	{Method: "GET", Path: "/items/{id}/parts/{part}", Handle: hello},
}

func user(name string) option { return with(UserHeader, name) }

var identities = []scenario{
	each(
		"a header is a key", keyfuncs.Header("x-tenant"),
		first("/", with("X-Tenant", "a")), again("/", with("X-Tenant", "a")),
		first("/", with("X-Tenant", "b")), again("/", with("x-tenant", "b")),
	),
	each(
		"requests without the key share one bucket", keyfuncs.Header("X-Tenant"),
		first("/"), again("/"),
		again("/", with("X-Tenant", "")),
		again("/", with("X-Tenant", " ")),
		again("/", from("203.0.113.9:99")),
		first("/", with("X-Tenant", "a")),
	),
	each(
		"an API key is a key, in its header and as a bearer token", keyfuncs.APIKey(),
		first("/", with("X-API-Key", "s3cret")), again("/", with("X-API-Key", "s3cret")),
		again("/", with("Authorization", "Bearer s3cret")),
		first("/", with("Authorization", "bearer other")), again("/", with("X-API-Key", "other")),
	),
	each(
		"an API key in the query is a key", keyfuncs.APIKey("?api_key"),
		first("/?api_key=a"), again("/?api_key=a&x=1"), again("/?x=1&api_key=%61"),
		first("/?api_key=b+c"), again("/?api_key=b%20c"),
		first("/?api_key=c&x=a"), again("/?x=b&api_key=c"),
	),
	each(
		"a cookie is a key", keyfuncs.Cookie("sid"),
		first("/", with("Cookie", "sid=abc")), again("/", with("Cookie", "theme=dark; sid=abc")),
		first("/", with("Cookie", "sid=def; other=abc")), again("/", with("Cookie", "sid=def")),
	),
	each(
		"a user in the framework's locals is a key", keyfuncs.User(UserLocal),
		first("/", user("alice")), again("/", user("alice")), again("/", user("alice"), from("203.0.113.9:99")),
		first("/", user("bob")),
		first("/"), again("/"),
	),
	{"a user in the context is a key", func(e *env) {
		s := e.serve(App{SignIn: InContext, Layers: e.layer(core.PerHour(1).By(keyfuncs.User(UserKey{})))})
		e.try(s, []ask{
			first("/", user("alice")), again("/", user("alice")),
			first("/", user("bob")),
			first("/"), again("/"),
		})
	}},
	each(
		"a user in the locals is also found first, and else the peer",
		keyfuncs.First(keyfuncs.User(UserLocal), keyfuncs.ClientIP()),
		first("/", user("alice")), again("/", user("alice"), from("203.0.113.9:99")),
		first("/"), again("/"),
	),
	{"a method is a key, and HEAD counts as GET", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerHour(1).By(keyfuncs.Method())), Routes: resources})
		e.try(s, []ask{
			first("/"), again("/").by("HEAD"), again("/items/1"),
			first("/").by("POST"), again("/items/1").by("POST"),
		})
		if e.differs.RefusesMethods != 0 {
			for _, method := range []string{"PURGE", "LOCK"} {
				r := s.do(method, "/")
				equal(e, method, r.status, e.differs.RefusesMethods)
				equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), "")
			}
			return
		}
		e.try(s, []ask{first("/").by("PURGE"), again("/").by("LOCK")})
	}},
	{"a route's template is a key, around the whole application", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerHour(1).By(keyfuncs.Route())), Routes: resources})
		e.try(s, []ask{
			first("/items/1"), again("/items/2"), again("/items/3?x=/"), again("/items/4").by("POST"),
			first("/items/1/parts/1"), again("/items/2/parts/2"),
			first("/"),
			first("/nowhere"), again("/elsewhere"), again("/ITEMS/9/x"),
		})
	}},
	{"a route's template is a key, on the route itself", func(e *env) {
		layers := e.layer(core.PerHour(1).By(keyfuncs.Route()))
		s := e.serve(App{Routes: []Route{
			{Method: "GET", Path: "/items/{id}", Layers: layers, Handle: hello},
			{Method: "GET", Path: "/users/{id}", Layers: layers, Handle: hello},
		}})
		e.try(s, []ask{
			first("/items/1"), again("/items/2"),
			first("/users/1"), again("/users/2"),
		})
	}},
	each(
		"a peer is a key, whatever its port", keyfuncs.ClientIP(),
		first("/", from("192.0.2.7:1")), again("/", from("192.0.2.7:2")), again("/", from("[::ffff:192.0.2.7]:3")),
		first("/", from("192.0.2.8:1")),
		first("/", from("[2001:db8::1]:1")), again("/", from("[2001:db8::ffff:ffff]:2")),
		first("/", from("[2001:db8:0:1::1]:1")),
	),
	{"headers of a megabyte are keys like any other", func(e *env) {
		s := e.serve(App{LargeHeaders: true, Layers: e.layer(core.PerHour(1).By(keyfuncs.Header("X-Tenant")))})
		e.try(s, []ask{
			first("/", with("X-Tenant", strings.Repeat("a", 1<<20))),
			again("/", with("X-Tenant", strings.Repeat("a", 1<<20))),
			first("/", with("X-Tenant", strings.Repeat("a", 1<<20+1))),
		})
	}},
	each(
		"bytes that are no UTF-8 are keys like any other", keyfuncs.Header("X-Tenant"),
		first("/", with("X-Tenant", "\xff\xfe")), again("/", with("X-Tenant", "\xff\xfe")),
		first("/", with("X-Tenant", "\xff\xfd")),
		first("/", with("X-Tenant", "\u00ff\u00fe")),
	),
	{"rotating addresses in headers gain nothing", func(e *env) {
		const quota, tries = 5, 30
		for _, name := range []string{
			"X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "Forwarded",
			"X-Client-IP", "X-Cluster-Client-IP", "Fastly-Client-IP", "X-Appengine-Remote-Addr", "X-Original-Forwarded-For",
		} {
			s := e.serve(App{Layers: e.layer(core.PerHour(quota).By(keyfuncs.ClientIP()))})
			passed := 0
			for i := range tries {
				value := fmt.Sprintf("198.51.100.%d", i)
				if name == "Forwarded" {
					value = "for=" + value
				}
				if s.get("/", with(name, value)).status == http.StatusOK {
					passed++
				}
			}
			equal(e, fmt.Sprintf("passed of %d with %s", tries, name), passed, quota)
		}
	}},
	{"an address that a key could mistake for another's is its own", func(e *env) {
		s := e.serve(App{SignIn: InLocals, Layers: e.layer(
			core.PerHour(1).By(keyfuncs.First(keyfuncs.User(UserLocal), keyfuncs.ClientIP())),
		)})
		e.try(s, []ask{
			first("/", user("192.0.2.7")), first("/", from("192.0.2.7:1")),
			again("/", user("192.0.2.7")), again("/", from("192.0.2.7:1")),
		})
	}},
}
