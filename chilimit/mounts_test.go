package chilimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// roots has mounts of each kind, with a limiter before chi's routing and, where
// there is a router, within it.
func roots(limit func(http.Handler) http.Handler, h http.HandlerFunc) map[string]http.Handler {
	build := func(within bool, mount func(r chi.Router, sub *chi.Mux)) http.Handler {
		r, sub := chi.NewRouter(), chi.NewRouter()
		if within {
			sub.Use(limit)
		} else {
			r.Use(limit)
		}
		mount(r, sub)
		return r
	}
	handlers := make(map[string]http.Handler)
	for _, within := range []bool{false, true} {
		place := map[bool]string{false: ", before", true: ", within"}[within]
		handlers["all paths"+place] = build(within, func(r chi.Router, sub *chi.Mux) {
			sub.HandleFunc("/*", h)
			r.Mount("/admin", sub)
		})
		handlers["all paths, in another mount"+place] = build(within, func(r chi.Router, sub *chi.Mux) {
			sub.HandleFunc("/*", h)
			r.Route("/v1/{tenant}", func(r chi.Router) { r.Mount("/admin", sub) })
		})
		handlers["all paths, with a mount for root"+place] = build(within, func(r chi.Router, sub *chi.Mux) {
			deep := chi.NewRouter()
			deep.HandleFunc("/*", h)
			sub.Mount("/", deep)
			r.Mount("/admin", sub)
		})
	}
	handlers["a handler, before"] = build(false, func(r chi.Router, _ *chi.Mux) { r.Mount("/admin", h) })
	mounted := func(around http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Mount("/admin", around)
		return r
	}
	sub := chi.NewRouter()
	sub.HandleFunc("/*", h)
	handlers["a handler, around"] = mounted(limit(h))
	handlers["a router, around"] = mounted(limit(sub))
	handlers["a handler, around all"] = limit(mounted(h))
	return handlers
}

// Trap 60: the root of a mount, with and without its slash, is the route of what
// it covers.
func TestTrap60AMountWithAndWithoutItsSlash(t *testing.T) {
	t.Parallel()
	for name := range roots(unlimited, end) {
		ran := 0
		limit := Limit(core.NewMemory(), core.PerDay(3).By(keyfuncs.Route()))
		app := roots(limit, func(http.ResponseWriter, *http.Request) { ran++ })[name]
		prefix := ""
		if name == "all paths, in another mount, before" || name == "all paths, in another mount, within" {
			prefix = "/v1/acme"
		}
		for range 10 {
			for _, path := range []string{"/admin", "/admin/", "/admin/x", "/admin/x/y"} {
				for _, method := range []string{"GET", "POST", "HEAD"} {
					app.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, prefix+path, nil))
				}
			}
		}
		check.Equal(t, name+": runs of the handler", ran, 3)
	}
}

func unlimited(next http.Handler) http.Handler { return next }

// A condition on either spelling of a mount's root keeps its limit, and exempts by
// the template alone.
func TestConditionsOnTheRootOfAMount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		template string
		path     string
		want     keyfuncs.Answer
	}{
		{"/admin/*", "/admin", keyfuncs.Yes},
		{"/admin/*", "/admin/", keyfuncs.Yes},
		{"/admin/*", "/admin/x", keyfuncs.Yes},
		{"/admin", "/admin", keyfuncs.Unknown},
		{"/admin", "/admin/", keyfuncs.Unknown},
		{"/admin", "/admin/x", keyfuncs.No},
		{"/users", "/users", keyfuncs.Yes}, // registered over the mount
		{"/users/*", "/users", keyfuncs.No},
		{"/users/{id}", "/users/1", keyfuncs.Yes},
		{"/items", "/items", keyfuncs.Yes},
		{"/items/", "/items", keyfuncs.Unknown}, // as chi does not write it
		{"/items/", "/items/", keyfuncs.Unknown},
		{"/slash", "/slash/", keyfuncs.Yes},
		{"/slash/", "/slash/", keyfuncs.Unknown},
	} {
		var got keyfuncs.Answer
		r := chi.NewRouter()
		r.Use(func(next http.Handler) http.Handler {
			var m mounts
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = keyfuncs.Routes("GET " + tt.template).Ask(newRequest(r, &m))
				next.ServeHTTP(w, r)
			})
		})
		sub := chi.NewRouter()
		sub.HandleFunc("/*", end)
		r.Mount("/admin", sub)
		r.Route("/users", func(r chi.Router) { r.Get("/{id}", end) })
		r.Get("/users", end)
		r.Route("/items", func(r chi.Router) { r.Get("/", end) })
		r.Get("/slash/", end)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
		if w.Code != http.StatusNoContent || got != tt.want {
			t.Errorf("GET %s on %s: %v with %d, want %v", tt.template, tt.path, got, w.Code, tt.want)
		}
	}
}

// Trap 52: a limit of a route of a router that is mounted in disguise holds.
func TestTrap52AConditionOnARouteInAWrappedRouter(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(r chi.Router, sub *chi.Mux, limit func(http.Handler) http.Handler){
		"around": func(r chi.Router, sub *chi.Mux, limit func(http.Handler) http.Handler) {
			r.Mount("/api", limit(wrapped{sub}))
		},
		"within":  func(r chi.Router, sub *chi.Mux, limit func(http.Handler) http.Handler) { r.Mount("/api", wrapped{sub}) },
		"outside": func(r chi.Router, sub *chi.Mux, limit func(http.Handler) http.Handler) { r.Mount("/api", limit(sub)) },
	} {
		ran := 0
		limit := Limit(core.NewMemory(), core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /api/login")))
		r, sub := chi.NewRouter(), chi.NewRouter()
		if name == "within" {
			sub.Use(limit)
		}
		sub.Post("/login", func(http.ResponseWriter, *http.Request) { ran++ })
		build(r, sub, limit)
		for range 100 {
			r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/api/login", nil))
		}
		check.Equal(t, name+": of 100 logins", ran, 5)
	}
}
