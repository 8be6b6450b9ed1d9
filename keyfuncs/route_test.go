package keyfuncs_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestRoute(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("a", 64)
	for _, tt := range []struct{ name, route, want string }{
		{"gin, echo and fiber templates are readable", "/users/:id", "route:/users/:id"},
		{"wildcards are readable", "/static/*path", "route:/static/*path"},
		{"chi templates with parameters are hashed", "/users/{id}", hashed("route", "/users/{id}")},
		{"net/http patterns keep method and host", "GET example.com/users", "route:GET example.com/users"},
		{"long templates are hashed", long, hashed("route", long)},
		{"unmatched requests share a bucket", "", "route:unmatched"},
		{"a template spelled like the shared bucket is not it", "/unmatched", "route:/unmatched"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantKey(t, keyfuncs.Route(), &request{route: tt.route}, tt.want)
		})
	}
}

func TestRouteThatIsNotKnownIsOneBucket(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/login", "/x", "//login"} {
		wantKey(t, keyfuncs.Route(), &request{path: path, unknown: true}, "route:unknown")
		wantKey(t, keyfuncs.Route(), &request{path: path, route: "/api/*", unknown: true}, "route:/api/*")
	}
	for _, f := range []keyfuncs.Func{
		keyfuncs.Route(), keyfuncs.Join(keyfuncs.ClientIP(), keyfuncs.Route()), keyfuncs.First(keyfuncs.User("id"), keyfuncs.Route()),
		keyfuncs.Join(keyfuncs.Everyone(), keyfuncs.Route()).WithSecret(bytes.Repeat([]byte("s"), 32)),
	} {
		check.Equal(t, f.Kind()+": ReadsRoute", f.ReadsRoute(), true)
	}
	check.Equal(t, "ClientIP: ReadsRoute", keyfuncs.ClientIP().ReadsRoute(), false)
}

// Trap 37.
func TestRouteNeverReadsThePath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/login", "/login/", "//login", "/LOGIN", "/%6cogin", "/x/../login", "/login;v=1", "http://example.com/login",
	} {
		wantKey(t, keyfuncs.Route(), &request{path: path, route: "/login"}, "route:/login")
		wantKey(t, keyfuncs.Route(), &request{path: path}, "route:unmatched")
	}
}

// Trap 39.
func TestMethodIsBounded(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"GET": "method:GET", "HEAD": "method:GET", "POST": "method:POST", "PUT": "method:PUT", "PATCH": "method:PATCH",
		"DELETE": "method:DELETE", "CONNECT": "method:CONNECT", "OPTIONS": "method:OPTIONS", "TRACE": "method:TRACE",
		"": "method:other", "get": "method:other", "BREW": "method:other", "PROPFIND": "method:other",
		"other": "method:other", "GET\r\n": "method:other", strings.Repeat("A", 1<<20): "method:other",
	} {
		wantKey(t, keyfuncs.Method(), &request{method: method}, want)
	}
	override := withHeader("X-Http-Method-Override", "POST")
	override.method = "GET"
	wantKey(t, keyfuncs.Method(), override, "method:GET")
}

func TestEveryoneIsOneBucket(t *testing.T) {
	t.Parallel()
	wantKey(t, keyfuncs.Everyone(), &request{}, "all")
	wantKey(t, keyfuncs.Everyone(), &request{peer: "192.0.2.7", method: "GET"}, "all")
}
