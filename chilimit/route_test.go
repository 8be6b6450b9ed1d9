package chilimit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// probe is middleware that notes what a limiter in its place would see.
type probe struct{ seen map[string]string }

func (p *probe) at(name string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		var m mounts
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.seen[name], _ = newRequest(r, &m).Route()
			next.ServeHTTP(w, r)
		})
	}
}

func end(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// newRequest is a request as a limiter sees it.
func newRequest(r *http.Request, m *mounts) *request {
	return &request{Request: stdhttp.Of(r), http: r, mounts: m}
}

// application has a limiter in each kind of place: Use, With and Group, in the
// root and in routers mounted once, twice and with parameters, and around a mount.
func application(p *probe, first ...func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(first...)
	r.Use(p.at("root"))
	r.Get("/", end)
	r.With(p.at("with")).Get("/items/{id}", end)
	r.With(p.at("with")).Post("/items/{id}", end)
	r.With(p.at("with")).Get("/orders/{id:[0-9]+}-{part}", end)
	r.With(p.at("with")).Get("/files/*", end)
	r.Mount("/assets", http.HandlerFunc(end))
	r.Route("/api", func(r chi.Router) {
		r.Use(p.at("api"))
		r.Get("/", end)
		r.Get("/items/{id}", end)
		r.Group(func(r chi.Router) {
			r.Use(p.at("group"))
			r.Get("/users/{id}", end)
		})
		r.With(p.at("around")).Route("/{tenant}", func(r chi.Router) {
			r.Use(p.at("tenant"))
			r.Get("/", end)
			r.With(p.at("tenant route")).Get("/books/{id}", end)
			r.Get("/pages/*", end)
		})
	})
	deep := chi.NewRouter()
	deep.Use(p.at("deep"))
	deep.Get("/x/{id}", end)
	r.Mount("/a", deep)
	r.Mount("/b/", deep)
	r.Mount("/c", wrapped{deep})
	return r
}

type wrapped struct{ http.Handler }

func TestRoute(t *testing.T) {
	t.Parallel()
	p := &probe{seen: make(map[string]string)}
	app := application(p)
	for _, tt := range []struct {
		method, path string
		want         map[string]string
	}{
		{"GET", "/", map[string]string{"root": "/"}},
		{"GET", "/items/1", map[string]string{"root": "/items/{id}", "with": "/items/{id}"}},
		{"POST", "/items/1?x=/", map[string]string{"root": "/items/{id}", "with": "/items/{id}"}},
		{"GET", "/orders/7-b", map[string]string{"root": "/orders/{id:[0-9]+}-{part}", "with": "/orders/{id:[0-9]+}-{part}"}},
		{"GET", "/files/", map[string]string{"root": "/files/*", "with": "/files/*"}},
		{"GET", "/files/a/b.txt", map[string]string{"root": "/files/*", "with": "/files/*"}},
		{"GET", "/assets/a.css", map[string]string{"root": "/assets/*"}},
		{"GET", "/api", map[string]string{"root": "/api", "api": "/api"}},
		{"GET", "/api/", map[string]string{"root": "/api", "api": "/api"}},
		{"GET", "/api/items/1", map[string]string{"root": "/api/items/{id}", "api": "/api/items/{id}"}},
		{"GET", "/api/users/1", map[string]string{"root": "/api/users/{id}", "api": "/api/users/{id}", "group": "/api/users/{id}"}},
		{"GET", "/api/acme", map[string]string{"root": "/api/{tenant}", "api": "/api/{tenant}", "around": "/api/{tenant}", "tenant": "/api/{tenant}"}},
		{"GET", "/api/acme/books/1", map[string]string{
			"root": "/api/{tenant}/books/{id}", "api": "/api/{tenant}/books/{id}", "around": "/api/{tenant}/books/{id}",
			"tenant": "/api/{tenant}/books/{id}", "tenant route": "/api/{tenant}/books/{id}",
		}},
		{"GET", "/api/acme/pages/1/2", map[string]string{
			"root": "/api/{tenant}/pages/*", "api": "/api/{tenant}/pages/*", "around": "/api/{tenant}/pages/*", "tenant": "/api/{tenant}/pages/*",
		}},
		{"GET", "/a/x/1", map[string]string{"root": "/a/x/{id}", "deep": "/a/x/{id}"}},
		{"GET", "/b/x/1", map[string]string{"root": "/b/x/{id}", "deep": "/b/x/{id}"}},
		{"GET", "/c/x/1", map[string]string{"root": "/c/*", "deep": "/c/*"}},

		// No route.
		{"GET", "/nowhere", map[string]string{"root": ""}},
		{"GET", "/ITEMS/1", map[string]string{"root": ""}},
		{"GET", "/items/1/", map[string]string{"root": ""}},
		{"GET", "//items/1", map[string]string{"root": ""}},
		{"GET", "/%69tems/1", map[string]string{"root": ""}},
		{"DELETE", "/items/1", map[string]string{"root": ""}},
		{"BREW", "/items/1", map[string]string{"root": ""}},
		{"GET", "/api/items/1/2", map[string]string{"root": "", "api": "", "around": "", "tenant": ""}},
		{"GET", "/a/y", map[string]string{"root": "", "deep": ""}},

		// HEAD counts as GET, which may answer it.
		{"HEAD", "/items/1", map[string]string{"root": "/items/{id}"}},
		{"HEAD", "/a/x/1", map[string]string{"root": "/a/x/{id}", "deep": "/a/x/{id}"}},
	} {
		for _, again := range []string{"", ", again"} {
			clear(p.seen)
			w := httptest.NewRecorder()
			app.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
			for name, want := range tt.want {
				if got, asked := p.seen[name]; !asked || got != want {
					t.Errorf("%s %s%s: %s sees %q, %v, want %q", tt.method, tt.path, again, name, got, asked, want)
				}
			}
			if len(p.seen) != len(tt.want) {
				t.Errorf("%s %s%s: seen %v, want %v", tt.method, tt.path, again, p.seen, tt.want)
			}
		}
	}
}

// What a limiter sees before the handler is what chi says after it.
func TestRouteIsTheOneThatChiFinds(t *testing.T) {
	t.Parallel()
	p := &probe{seen: make(map[string]string)}
	var final string
	app := application(p, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			final = chi.RouteContext(r.Context()).RoutePattern()
		})
	})
	for _, path := range []string{"/", "/items/1", "/orders/7-b", "/files/a/b", "/assets/x", "/api", "/api/", "/api/users/1", "/api/acme/", "/api/acme/books/1", "/api/acme/pages/1/2", "/a/x/1", "/b/x/1"} {
		clear(p.seen)
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		check.Equal(t, path, w.Code, http.StatusNoContent)
		for name, got := range p.seen {
			if got != final {
				t.Errorf("%s: %s sees %q, chi says %q", path, name, got, final)
			}
		}
	}
}

// Middleware of chi that changes the path or the method goes before the limiter,
// wherever the limiter is.
func TestRouteOfARewrittenRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		first        func(http.Handler) http.Handler
		method, path string
		places       []string
		want         string
	}{
		{"StripSlashes", middleware.StripSlashes, "GET", "/api/users/1/", []string{"root", "api", "group"}, "/api/users/{id}"},
		{"CleanPath", middleware.CleanPath, "GET", "//api//users/1", []string{"root", "api", "group"}, "/api/users/{id}"},
		{"CleanPath", middleware.CleanPath, "GET", "/x/../api/acme/books/./1", []string{"root", "api", "around", "tenant", "tenant route"}, "/api/{tenant}/books/{id}"},
		{"URLFormat", middleware.URLFormat, "GET", "/api/users/1.json", []string{"root", "api", "group"}, "/api/users/{id}"},
		{"GetHead", middleware.GetHead, "HEAD", "/api/users/1", []string{"root", "api", "group"}, "/api/users/{id}"},
	} {
		p := &probe{seen: make(map[string]string)}
		w := httptest.NewRecorder()
		application(p, tt.first).ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		check.Equal(t, fmt.Sprintf("%s, %s %s", tt.name, tt.method, tt.path), w.Code, http.StatusNoContent)
		for _, place := range tt.places {
			check.Equal(t, fmt.Sprintf("%s, %s %s: %s", tt.name, tt.method, tt.path, place), p.seen[place], tt.want)
		}
	}
}

// Trap 52: middleware that rewrites the path behind the limiter is noticed, and lets
// one request through. What has no route in the end is none of it.
func TestTrap52MiddlewareThatRewritesBehindTheLimiter(t *testing.T) {
	t.Parallel()
	limit := Limit(core.NewMemory(), core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /api/login")))
	r, logins := chi.NewRouter(), 0
	r.Use(limit, middleware.StripSlashes)
	r.Route("/api", func(r chi.Router) { r.Post("/login", func(http.ResponseWriter, *http.Request) { logins++ }) })
	ask := func(path string) int {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("POST", path, nil))
		return w.Code
	}
	for range 20 {
		for _, path := range []string{"/nowhere", "/api/nowhere", "/api"} {
			must.Equal(t, path+" before anything is noticed", ask(path), http.StatusNotFound)
		}
	}
	for range 100 {
		ask("/api/login/")
	}
	check.Equal(t, "logins: 5 and the first", logins, 6)
}

func TestOutsideOfChiNoRouteIsKnown(t *testing.T) {
	t.Parallel()
	p := &probe{seen: make(map[string]string)}
	p.at("outside")(application(p)).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/items/1", nil))
	check.Equal(t, "outside", p.seen["outside"], "")
}

// Asking for the route leaves chi's own context alone: parameters arrive.
func TestParametersOutliveTheQuestion(t *testing.T) {
	t.Parallel()
	r := chi.NewRouter()
	limit := func() func(http.Handler) http.Handler {
		return Limit(core.NewMemory(), core.PerHour(1000).By(keyfuncs.Route()))
	}
	r.Use(limit())
	r.Route("/api/{tenant}", func(r chi.Router) {
		r.Use(limit())
		r.With(limit()).Get("/books/{id}", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(chi.URLParam(r, "tenant") + " " + chi.URLParam(r, "id") + " " + chi.RouteContext(r.Context()).RoutePattern()))
		})
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				w := httptest.NewRecorder()
				r.ServeHTTP(w, httptest.NewRequest("GET", "/api/acme/books/7", nil))
				if got, want := w.Body.String(), "acme 7 /api/{tenant}/books/{id}"; got != want {
					t.Errorf("%d %q, want %q", w.Code, got, want)
				}
			}
		})
	}
	wg.Wait()
}

// What chi has found of the client is there for keyfuncs.Framework; the peer stays.
func TestFrameworkIP(t *testing.T) {
	t.Parallel()
	r := chi.NewRouter()
	r.Use(middleware.ClientIPFromHeader("X-Real-IP"))
	r.Get("/", func(_ http.ResponseWriter, r *http.Request) {
		in := &request{Request: stdhttp.Of(r)}
		if in.FrameworkIP() != "203.0.113.9" || in.Peer().String() != "192.0.2.1" {
			t.Errorf("the framework's %q, peer %v", in.FrameworkIP(), in.Peer())
		}
	})
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("X-Real-IP", "203.0.113.9")
	r.ServeHTTP(httptest.NewRecorder(), req)
}
