package fiber3limit

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// walk is an app whose handlers all pass on, and note themselves.
type walk struct {
	found  []string // what a limiter foresees
	passed []string // what comes then
	last   *fiber.Route
}

// limiter is a middleware that foresees, as a limiter would.
func (w *walk) limiter(known *routes) fiber.Handler {
	return func(c fiber.Ctx) error {
		w.found, w.passed, w.last = nil, nil, nil
		t := known.table(c.App())
		here, ok := t.at(c)
		if !ok {
			w.found = append(w.found, "unknown")
			return c.Next()
		}
		s := t.search(c, here.position)
		defer s.end()
		for template := s.next(); template != ""; template = s.next() {
			w.found = append(w.found, template)
		}
		return c.Next()
	}
}

func (w *walk) note(c fiber.Ctx) error {
	if route := c.Route(); route != w.last { // else another handler of the same
		w.passed, w.last = append(w.passed, route.Path), route
	}
	return c.Next()
}

// fill registers random routes, prefixes and limiters.
func (w *walk) fill(r *rand.Rand, app *fiber.App, known *routes) {
	paths := []string{
		"/", "/a", "/a/", "/A/b", "/a/b", "/:x", "/a/:x", "/a/:x?", "/a/:x<int>", "/a/:x<regex(^[A-Z]+$)>", "/a/*", "/*", "/+", "/:x/b", "/:x-:y",
		"/long/path", "/long/:x", "/lon", "/long/path/", "/a\\:b", "*",
	}
	pass := func(c fiber.Ctx) error { return c.Next() }
	for range 2 + r.IntN(8) {
		path := paths[r.IntN(len(paths))]
		switch r.IntN(8) {
		case 0:
			app.Use(w.limiter(known))
		case 1:
			app.Use(path, pass)
		case 2:
			app.Use(path, w.limiter(known))
		case 3:
			app.All(path, w.note)
		case 4:
			app.Post(path, w.note)
		default:
			app.Get(path, w.note)
		}
	}
}

// The routes that a limiter foresees are those that Fiber goes through, in all
// settings and in mounted apps.
func TestSearchIsAsFiberMatches(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 11))
	requests := []string{"/", "/a", "/a/", "/A", "/a/b", "/A/B", "/a/7", "/a/XY", "/a/b/c", "/long", "/long/", "/long/path", "/LONG/path/", "/x-y", "/%61", "/a%2Fb", "/a:b", "//a", "/lon", "/m", "/m/a", "/m/long/path", "/M/a/7/"}
	foreseen := 0
	for range 300 {
		config := fiber.Config{CaseSensitive: r.IntN(2) == 0, StrictRouting: r.IntN(2) == 0, UnescapePath: r.IntN(2) == 0}
		app, known, w := fiber.New(config), new(routes), new(walk)
		requests := requests
		if r.IntN(2) == 0 {
			app.Use(w.limiter(known))
		} else { // which also sees a target without a path
			app.Use("*", w.limiter(known))
			requests = append(slices.Clip(requests), "*")
		}
		w.fill(r, app, known)
		if r.IntN(2) == 0 {
			sub := fiber.New()
			w.fill(r, sub, known)
			app.Use("/m", sub)
			w.fill(r, app, known)
		}
		for _, path := range requests {
			for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS"} {
				res, err := app.Test(httptest.NewRequest(method, path, nil), fiber.TestConfig{})
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if !slices.Equal(w.found, w.passed) {
					t.Fatalf("%s %s, %+v: foreseen %q, passed %q", method, path, []bool{config.CaseSensitive, config.StrictRouting, config.UnescapePath}, w.found, w.passed)
				}
				foreseen += len(w.found)
			}
		}
	}
	if foreseen < 1000 {
		t.Errorf("%d routes were foreseen", foreseen)
	}
}

// logins counts how many of 100 requests reach the handler of POST /login under 5.
func logins(t *testing.T, build func(app *fiber.App, limit, login fiber.Handler), path string) (reached int) {
	t.Helper()
	limit := Limit(core.NewMemory(), core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /login")))
	app := fiber.New()
	build(app, limit, func(fiber.Ctx) error { reached++; return nil })
	for range 100 {
		res, err := app.Test(httptest.NewRequest("POST", path, nil), fiber.TestConfig{})
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	return reached
}

// Trap 52: a limit of a route holds though another that matches comes first, and
// where Fiber has no route at all.
func TestTrap52AConditionOnARouteBehindAnother(t *testing.T) {
	t.Parallel()
	pass := func(c fiber.Ctx) error { return c.Next() }
	for name, build := range map[string]func(app *fiber.App, limit, login fiber.Handler){
		"in Use": func(app *fiber.App, limit, login fiber.Handler) {
			app.Use(limit)
			app.Post("/login", login)
		},
		"behind a route of all": func(app *fiber.App, limit, login fiber.Handler) {
			app.Use(limit)
			app.All("/*", pass)
			app.Post("/login", login)
		},
		"on a route of all": func(app *fiber.App, limit, login fiber.Handler) {
			app.All("/*", limit)
			app.Post("/login", login)
		},
		"before a fallback": func(app *fiber.App, limit, login fiber.Handler) {
			app.Use(limit)
			app.Post("/login", login)
			app.All("/*", pass)
		},
		"in a mounted app": func(app *fiber.App, limit, login fiber.Handler) {
			sub := fiber.New()
			sub.Post("/login", login)
			app.Use(limit)
			app.Use("/", sub)
		},
		"by a handler of Use": func(app *fiber.App, limit, login fiber.Handler) {
			app.Use("/login", limit, login)
			app.Get("/", pass)
		},
		"registered after the first request": func(app *fiber.App, limit, login fiber.Handler) {
			app.Use(limit)
			res, _ := app.Test(httptest.NewRequest("POST", "/login", nil), fiber.TestConfig{})
			_ = res.Body.Close()
			app.Post("/login", login)
		},
	} {
		if got := logins(t, build, "/login"); got != 5 && (name != "registered after the first request" || got != 4) {
			t.Errorf("%s: %d logins, want 5", name, got)
		}
	}
}

// Trap 52: middleware that rewrites the path behind the limiter is noticed, and lets
// one request through.
func TestTrap52MiddlewareThatRewritesBehindTheLimiter(t *testing.T) {
	t.Parallel()
	got := logins(t, func(app *fiber.App, limit, login fiber.Handler) {
		app.Use(limit, func(c fiber.Ctx) error {
			if c.Path() == "/signin" {
				c.Path("/login")
			}
			return c.Next()
		})
		app.Post("/login", login)
	}, "/signin")
	if got != 6 {
		t.Errorf("%d logins, want 5 and the first", got)
	}
}

// A bypass of a route is of the first that matches.
func TestBypassOfARouteBehindAnother(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]int{"/healthz": 20, "/*": 5} {
		limiter := core.Must(core.New(core.Config{
			Store: core.NewMemory(), Limits: []core.Limit{core.PerDay(5).By(keyfuncs.Everyone())},
			Bypass: []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
		}))
		app, ran := fiber.New(), 0
		app.Use(New(limiter))
		for _, path := range []string{first, "/healthz", "/*"} {
			app.Get(path, func(c fiber.Ctx) error {
				if path == "/healthz" {
					ran++
					return nil
				}
				return c.Next()
			})
		}
		for range 20 {
			res, err := app.Test(httptest.NewRequest("GET", "/healthz", nil), fiber.TestConfig{})
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		}
		if ran != want {
			t.Errorf("behind %s: %d of 20 passed, want %d", first, ran, want)
		}
	}
}

// Spellings of a path are one bucket of its route, whatever Fiber folds.
func TestSpellingsOfARouteAreOneBucket(t *testing.T) {
	t.Parallel()
	app, ran := fiber.New(), 0
	app.Use(Limit(core.NewMemory(), core.PerDay(1).By(keyfuncs.Route())))
	app.All("/items/*", func(fiber.Ctx) error { ran++; return nil })
	app.Get("/users/:id?", func(fiber.Ctx) error { ran++; return nil })
	for i := range 20 {
		for _, path := range []string{"/items", "/items/", "/ITEMS/a", "/items//", fmt.Sprint("/items/", i), "/users", "/users/", "/Users/1"} {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				res, err := app.Test(httptest.NewRequest(method, path, nil), fiber.TestConfig{})
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
			}
		}
	}
	if ran != 2 {
		t.Errorf("%d requests passed, want one of each route", ran)
	}
}
