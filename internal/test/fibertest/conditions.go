package fibertest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// logins counts how many of 100 requests reach the handler of POST /login under 5.
func (s suite[C]) logins(t *testing.T, path string, build func(app App[C], limit, login func(C) error)) (reached int) {
	t.Helper()
	limit := s.f.Limit(core.NewMemory(), core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /login")))
	app := s.app()
	build(app, limit, func(C) error { reached++; return nil })
	for range 100 {
		ask(t, app, "POST", path)
	}
	return reached
}

// A limit of a route holds though another that matches comes first, and where Fiber has no route at
// all.
func (s suite[C]) conditionBehindAnother(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(app App[C], limit, login func(C) error){
		"in Use": func(app App[C], limit, login func(C) error) {
			app.Use("", limit)
			app.Add("POST", "/login", login)
		},
		"behind a route of all": func(app App[C], limit, login func(C) error) {
			app.Use("", limit)
			app.Add("", "/*", pass[C])
			app.Add("POST", "/login", login)
		},
		"on a route of all": func(app App[C], limit, login func(C) error) {
			app.Add("", "/*", limit)
			app.Add("POST", "/login", login)
		},
		"before a fallback": func(app App[C], limit, login func(C) error) {
			app.Use("", limit)
			app.Add("POST", "/login", login)
			app.Add("", "/*", pass[C])
		},
		"in a mounted app": func(app App[C], limit, login func(C) error) {
			sub := s.app()
			sub.Add("POST", "/login", login)
			app.Use("", limit)
			app.Mount("/", sub)
		},
		"by a handler of Use": func(app App[C], limit, login func(C) error) {
			app.Use("/login", limit, login)
			app.Get("/", pass[C])
		},
		"registered after the first request": func(app App[C], limit, login func(C) error) {
			app.Use("", limit)
			ask(t, app, "POST", "/login")
			app.Add("POST", "/login", login)
		},
	} {
		if got := s.logins(t, "/login", build); got != 5 && (name != "registered after the first request" || got != 4) {
			t.Errorf("%s: %d logins, want 5", name, got)
		}
	}
}

// Middleware that rewrites the path behind the limiter is noticed, and lets one request through.
func (s suite[C]) rewritingMiddleware(t *testing.T) {
	t.Parallel()
	got := s.logins(t, "/signin", func(app App[C], limit, login func(C) error) {
		app.Use("", limit, func(c C) error {
			if c.Path() == "/signin" {
				c.Path("/login")
			}
			return c.Next()
		})
		app.Add("POST", "/login", login)
	})
	check.Equal(t, "logins: 5 and the first", got, 6)
}

// A bypass of a route is of the first that matches.
func (s suite[C]) bypassBehindAnother(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]int{"/healthz": 20, "/*": 5} {
		app, ran := s.app(), 0
		app.Use("", s.f.New(core.Must(core.New(core.Config{
			Store: core.NewMemory(), Limits: []core.Limit{core.PerDay(5).By(keyfuncs.Everyone())},
			Bypass: []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
		}))))
		for _, path := range []string{first, "/healthz", "/*"} {
			app.Get(path, func(c C) error {
				if path == "/healthz" {
					ran++
					return nil
				}
				return c.Next()
			})
		}
		for range 20 {
			ask(t, app, "GET", "/healthz")
		}
		check.Equal(t, "of 20 that passed behind "+first, ran, want)
	}
}

// Spellings of a path are one bucket of its route, whatever Fiber folds.
func (s suite[C]) spellings(t *testing.T) {
	t.Parallel()
	app, ran := s.app(), 0
	app.Use("", s.f.Limit(core.NewMemory(), core.PerDay(1).By(keyfuncs.Route())))
	app.Add("", "/items/*", func(C) error { ran++; return nil })
	app.Get("/users/:id?", func(C) error { ran++; return nil })
	for i := range 20 {
		for _, path := range []string{"/items", "/items/", "/ITEMS/a", "/items//", fmt.Sprint("/items/", i), "/users", "/users/", "/Users/1"} {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				ask(t, app, method, path)
			}
		}
	}
	check.Equal(t, "requests that passed, one of each route", ran, 2)
}

// Trap: a condition on what a handler of Use answers, silently never true because
// there are other routes.
func (s suite[C]) prefixOfUse(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(files, "x"), []byte("x"), 0o600))
	type app = App[C]
	ok := hello[C]
	for name, fill := range map[string]func(app app, limit func(C) error){
		"none below": func(app app, limit func(C) error) { app.Use("/api", limit); app.Use("/api", ok) },
		"one below": func(app app, limit func(C) error) {
			app.Use("/api", limit)
			app.Get("/api/y", ok)
			app.Use("/api", ok)
		},
		"one beside": func(app app, limit func(C) error) {
			app.Use("/api", limit)
			app.Get("/apiary", ok)
			app.Use("/api", ok)
		},
		"limit of all": func(app app, limit func(C) error) { app.Use("", limit); app.Get("/y", ok); app.Use("/api", ok) },
		"parameter":    func(app app, limit func(C) error) { app.Use("", limit); app.Get("/y", ok); app.Use("/:x", ok) },
		"files": func(app app, limit func(C) error) {
			app.Use("", limit)
			app.Get("/y", ok)
			app.Files("/api", files)
		},
	} {
		for _, route := range []string{"/api", "/api/*", "GET /api/*"} {
			if name == "parameter" {
				route = "/:x/*"
			}
			app := s.app()
			fill(app, s.f.New(core.Must(core.New(core.Config{
				Store:   core.NewMemory(),
				Limits:  []core.Limit{core.PerHour(2).By(keyfuncs.Everyone()).When(keyfuncs.Routes(route))},
				Silence: []core.Advice{"WL008"},
			}))))
			for i, want := range []int{200, 200, 429} {
				check.Equal(t, fmt.Sprintf("%s, %s: request %d", name, route, i+1), ask(t, app, "GET", "/api/x").StatusCode, want)
			}
			if name != "parameter" && ask(t, app, "GET", "/y").StatusCode == http.StatusTooManyRequests {
				t.Errorf("%s, %s: another route is limited", name, route)
			}
		}
	}
}
