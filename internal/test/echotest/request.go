package echotest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Locals come before the context, and only strings are keys of locals.
func (s suite[C, M]) locals(t *testing.T) {
	type key string
	for _, tt := range []struct {
		key            any
		local, context func(user string) string
	}{
		{"user", func(user string) string { return user }, func(string) string { return "somebody else" }},
		{key("user"), func(string) string { return "somebody else" }, func(user string) string { return user }},
	} {
		e := s.app()
		e.Use(s.f.Middleware(func(c C, next func(C) error) error {
			user := c.QueryParam("user")
			c.Set("user", tt.local(user))
			c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), tt.key, tt.context(user))))
			return next(c)
		}), s.f.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.User(tt.key))))
		for i, want := range []int{404, 429, 404} {
			path := []string{"/?user=a", "/?user=a", "/?user=b"}[i]
			check.Equal(t, fmt.Sprintf("%T, request %d", tt.key, i+1), ask(e, "GET", path).Code, want)
		}
	}
}

func (s suite[C, M]) route(t *testing.T) {
	seen := make(map[string]string)
	probe := func(place string) M {
		return s.f.Limit(core.NewMemory(), core.PerHour(1000).By(keyfuncs.Custom("probe", func(r keyfuncs.Request) string {
			seen[place], _ = r.Route()
			return "x"
		})))
	}
	e := s.app()
	e.Pre(probe("pre"))
	e.Use(probe("use"))
	e.Route("GET", "/items/:id", hello[C], probe("route"))
	e.Route("GET", "/files/*", hello[C])
	e.Group("/api", probe("group")).Route("GET", "/users/:id", hello[C])
	for _, tt := range []struct {
		method, path string
		want         map[string]string
	}{
		{"GET", "/items/1", map[string]string{"pre": "", "use": "/items/:id", "route": "/items/:id"}},
		{"GET", "/files/a/b", map[string]string{"pre": "", "use": "/files/*"}},
		{"GET", "/api/users/1", map[string]string{"pre": "", "use": "/api/users/:id", "group": "/api/users/:id"}},
		{"GET", "/nowhere", map[string]string{"pre": "", "use": ""}},
		{"GET", "/ITEMS/1", map[string]string{"pre": "", "use": ""}},
		{"GET", "//items/1", map[string]string{"pre": "", "use": ""}},
		// Echo's own ways to say no.
		{"DELETE", "/items/1", map[string]string{"pre": "", "use": ""}},
		{"OPTIONS", "/items/1", map[string]string{"pre": "", "use": ""}},
	} {
		clear(seen)
		if ask(e, tt.method, tt.path); !maps.Equal(seen, tt.want) {
			t.Errorf("%s %s: seen %v, want %v", tt.method, tt.path, seen, tt.want)
		}
	}
}

// What Pre rewrites behind the limiter escapes no limit of a route.
func (s suite[C, M]) rewritingPre(t *testing.T) {
	limit := s.f.Limit(core.NewMemory(), core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /login")))
	e, logins := s.app(), 0
	e.Pre(limit, s.f.RemoveTrailingSlash())
	e.Route("POST", "/login", func(C) error { logins++; return nil })
	e.Route("GET", "/", hello[C])
	ask(e, "GET", "/") // by which Echo 4 learns where the limiter stands
	for range 20 {
		for _, path := range []string{"/login", "/login/"} {
			ask(e, "POST", path)
		}
	}
	check.Equal(t, "of 40 logins", logins, 5)
	check.Equal(t, "another method", ask(e, "GET", "/").Code, http.StatusOK)
}

// RealIP believes X-Forwarded-For here, and so must not be the client address.
func (s suite[C, M]) realIP(t *testing.T) {
	e := s.f.App(Options[C]{Address: Trusting})
	e.Use(s.f.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.ClientIP())))
	e.Route("GET", "/", func(c C) error { return c.String(http.StatusOK, c.RealIP()) })
	w := ask(e, "GET", "/", "X-Forwarded-For", "203.0.113.1")
	check.Equal(t, "RealIP, or this tests nothing", w.Body.String(), "203.0.113.1")
	w = ask(e, "GET", "/", "X-Forwarded-For", "203.0.113.2")
	check.Equal(t, "another X-Forwarded-For", w.Code, 429)
}
