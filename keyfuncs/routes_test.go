package keyfuncs_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	c := keyfuncs.Routes("GET /healthz", "/readyz", "POST /users/:id", "DELETE /users/:id", "example.com/{$}", "PROPFIND /dav/*", "*")
	for _, tt := range []struct {
		method, route string
		want          bool
	}{
		{"GET", "/healthz", true},
		{"HEAD", "/healthz", true},
		{"POST", "/healthz", false},
		{"get", "/healthz", false},
		{"", "/healthz", false},
		{"GET", "/readyz", true},
		{"BREW", "/readyz", true},
		{"POST", "/users/:id", true},
		{"DELETE", "/users/:id", true},
		{"GET", "/users/:id", false},
		{"HEAD", "/users/:id", false},
		{"POST", "/users/:ID", false},
		{"GET", "example.com/{$}", true},
		{"GET", "/{$}", false},
		{"PROPFIND", "/dav/*", true},
		{"PROPFIND", "/dav/a", false},
		{"GET", "*", true},
		{"GET", "", false},
		{"GET", "/", false},
	} {
		wantMatch(t, c, &request{method: tt.method, route: tt.route}, tt.want)
	}
	// For all methods, though one was named before.
	wantMatch(t, keyfuncs.Routes("GET /a", "/a"), &request{method: "PUT", route: "/a"}, true)
}

// Trap 52.
func TestRoutesWhereTheRouteIsNotKnown(t *testing.T) {
	t.Parallel()
	c := keyfuncs.Routes("GET /healthz", "POST /login")
	for _, tt := range []struct {
		method, route string
		unknown       bool
		want          keyfuncs.Answer
	}{
		{"GET", "/healthz", false, keyfuncs.Yes},
		{"GET", "", false, keyfuncs.No},
		{"GET", "", true, keyfuncs.Unknown},
		{"HEAD", "", true, keyfuncs.Unknown},
		{"POST", "/*", true, keyfuncs.Unknown},
		{"GET", "/healthz", true, keyfuncs.Unknown}, // what covers all that may come
		{"PUT", "", true, keyfuncs.No},              // whatever the route
	} {
		r := &request{method: tt.method, route: tt.route, unknown: tt.unknown}
		wantAnswer(t, fmt.Sprintf("%+v", tt), c, r, tt.want)
	}
	wantAnswer(t, "for all methods", keyfuncs.Routes("/healthz"), &request{method: "PUT", unknown: true}, keyfuncs.Unknown)
}

// forking is a request that may be answered by another route than its own.
type forking struct {
	request
	also string
}

func (f *forking) MayReach(template string) bool { return template == f.also }

func TestRoutesThatMayBeReachedAreNotKnown(t *testing.T) {
	t.Parallel()
	r := &forking{request{method: "POST", route: "/*"}, "/login"}
	wantAnswer(t, "its own route", keyfuncs.Routes("/login", "/*"), r, keyfuncs.Yes)
	wantAnswer(t, "another that it may reach", keyfuncs.Routes("POST /login"), r, keyfuncs.Unknown)
	wantAnswer(t, "the same by another method", keyfuncs.Routes("GET /login"), r, keyfuncs.No)
	wantAnswer(t, "one that it can't reach", keyfuncs.Routes("POST /logout"), r, keyfuncs.No)
}

// tricks are spellings that a prefix or suffix of a path falls for.
var tricks = []string{
	"/healthz/../login", "/healthz%2f..", "/healthz%2F..%2Flogin", "/login?/healthz", "/login#/healthz", "/login/healthz",
	"/login;/healthz", "/healthz;/../login", "/healthz/", "//healthz", "/healthz//", "/HEALTHZ", "/%68ealthz", "/healthz\x00",
	"/healthz.", "/healthz.json", "/./healthz", "/x/../healthz", "/healthzz", `/healthz\..\login`, "http://example.com/healthz", "healthz", "/healthz",
}

func TestTrap38PathsThatLookLikeAnExemptRoute(t *testing.T) {
	t.Parallel()
	c := keyfuncs.Any(keyfuncs.Routes("GET /healthz", "/readyz"), keyfuncs.All(keyfuncs.Methods("GET"), keyfuncs.Routes("/metrics")))
	for _, path := range tricks {
		// Whatever the path, the router's answer decides.
		wantMatch(t, c, &request{method: "GET", path: path, route: "/login"}, false)
		wantMatch(t, c, &request{method: "GET", path: path}, false)
		wantMatch(t, c, &request{method: "GET", path: path, route: "/healthz"}, true)
		// A router that has a template of that spelling has another route there.
		if path != "/healthz" {
			wantMatch(t, c, &request{method: "GET", path: "/healthz", route: path}, false)
		}
	}
	for _, header := range []string{"X-Original-Url", "X-Rewrite-Url", "X-Forwarded-Path", "X-Forwarded-Uri", "X-Forwarded-Prefix", "Referer"} {
		r := &request{method: "GET", path: "/login", route: "/login", headers: http.Header{header: {"/healthz"}}}
		wantMatch(t, c, r, false)
	}
}

func TestTrap39HeadersThatClaimAnotherMethod(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		post := &request{method: "POST", route: "/healthz", headers: http.Header{header: {"GET"}}}
		wantMatch(t, keyfuncs.Methods("GET"), post, false)
		wantMatch(t, keyfuncs.Routes("GET /healthz"), post, false)
		get := &request{method: "GET", route: "/healthz", headers: http.Header{header: {"POST"}}}
		wantMatch(t, keyfuncs.Methods("GET"), get, true)
		wantMatch(t, keyfuncs.Methods("POST"), get, false)
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	reads, head := keyfuncs.Methods("GET", "OPTIONS"), keyfuncs.Methods("HEAD")
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "POST": false, "get": false, "": false} {
		wantMatch(t, reads, &request{method: method}, want)
	}
	wantMatch(t, head, &request{method: "HEAD"}, true)
	wantMatch(t, head, &request{method: "GET"}, false)
}

func TestRoutesAndMethodsAreChecked(t *testing.T) {
	t.Parallel()
	wantConditionErr(t, keyfuncs.Routes(), "weblimit: keyfuncs.Routes: no routes")
	wantConditionErr(t, keyfuncs.Methods(), "weblimit: keyfuncs.Methods: no methods")
	for _, route := range []string{"", "healthz", "GET", "GET ", "GET healthz", "GET  /healthz", "/healthz ", " healthz", "unmatched", "\t/healthz"} {
		wantConditionErr(t, keyfuncs.Routes("/a", route), `weblimit: keyfuncs.Routes: `+quote(route)+` is not a route, want one such as "GET /healthz"`)
	}
	for _, route := range []string{" /healthz", "get /healthz", "GET,POST /healthz", "G:T /healthz", "/a /b"} {
		wantConditionErr(t, keyfuncs.Routes("/a", route), `weblimit: keyfuncs.Routes: `+quote(route)+` does not begin with a method in capitals`)
	}
	for _, method := range []string{"", "get", "GET ", "GET,POST", "GÉT"} {
		wantConditionErr(t, keyfuncs.Methods("PUT", method), `weblimit: keyfuncs.Methods: `+quote(method)+` is not a method`)
	}
}
