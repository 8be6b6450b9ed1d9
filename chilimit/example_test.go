package chilimit_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

func ExampleLimit() {
	store := core.NewMemory()

	r := chi.NewRouter()
	r.Use(chilimit.Limit(store, core.PerHour(2).By(keyfuncs.ClientIP())))
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	for range 3 {
		fmt.Println(ask(r, "GET", "/").Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// Limits of a router and of one route in it add up.
func ExampleLimit_route() {
	store := core.NewMemory()

	r := chi.NewRouter()
	r.Route("/api", func(r chi.Router) {
		r.Use(chilimit.Limit(store,
			core.PerHour(600).By(keyfuncs.ClientIP()).Named("client"),
			core.PerHour(5000).By(keyfuncs.Everyone()).Named("global"),
		))
		r.With(chilimit.Limit(store,
			core.PerHour(20).By(keyfuncs.ClientIP()).Cost(10).Named("export"),
		)).Post("/export", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	})

	fmt.Println(ask(r, "POST", "/api/export").Header().Get("RateLimit"))
	// Output: "client";r=599;t=3594, "global";r=4999;t=3600, "export";r=10;t=1800
}

// Health checks bypass the limits of all requests and of the route, and a denial tells of the
// limit that denied.
func ExampleWith() {
	limits := chilimit.With(core.Config{
		Store:   core.NewMemory(),
		Headers: core.XRateLimitDelta,
		Bypass:  []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
	}, chilimit.Config{
		Denied: func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			w.WriteHeader(d.Status())
			fmt.Fprint(w, "slow down")
		},
	})
	r := chi.NewRouter()
	r.Use(limits.Limit(core.PerHour(100).By(keyfuncs.ClientIP()).Named("client")))
	login := core.PerHour(1).By(keyfuncs.ClientIP()).Named("login")
	r.With(limits.Limit(login)).Post("/login", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "welcome") })
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })

	for _, to := range []string{"POST /login", "POST /login", "GET /healthz"} {
		method, path, _ := strings.Cut(to, " ")
		res := ask(r, method, path)
		fmt.Printf("%s: %d, %q of %q left\n", res.Body, res.Code, res.Header().Get("X-RateLimit-Remaining"), res.Header().Get("X-RateLimit-Limit"))
	}
	// Output:
	// welcome: 200, "0" of "1" left
	// slow down: 429, "0" of "1" left
	// fine: 200, "" of "" left
}

func ExampleNew() {
	limiter, err := core.New(core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{core.PerHour(1).By(keyfuncs.ClientIP())},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := chi.NewRouter()
	r.Use(chilimit.New(limiter, chilimit.Config{
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Denied: func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			http.Error(w, "slow down", d.Status())
		},
	}))
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

	fmt.Println(ask(r, "GET", "/").Code)
	fmt.Println(ask(r, "GET", "/").Code)
	fmt.Println(ask(r, "GET", "/healthz").Code)
	// Output:
	// 204
	// 429
	// 204
}

// One middleware around all routes gives each client a bucket per route.
func ExampleLimit_perRoute() {
	r := chi.NewRouter()
	r.Use(chilimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.ClientIP(), keyfuncs.Route())))
	r.Route("/api", func(r chi.Router) {
		r.Get("/items/{id}", func(http.ResponseWriter, *http.Request) {})
		r.Get("/users/{id}", func(http.ResponseWriter, *http.Request) {})
	})

	for _, path := range []string{"/api/items/1", "/api/items/2", "/api/users/1"} {
		fmt.Println(path, ask(r, "GET", path).Code)
	}
	// Output:
	// /api/items/1 200
	// /api/items/2 429
	// /api/users/1 200
}

// Each item has a bucket of its own, and previews are free.
func ExampleKey() {
	item := chilimit.Key("item", func(r *http.Request) string { return chi.URLParam(r, "id") })
	preview := chilimit.Matches(func(r *http.Request) bool { return r.URL.Query().Get("preview") == "yes" })
	perItem := core.PerHour(1).By(item).Unless(preview).Named("item")

	r := chi.NewRouter()
	r.With(chilimit.Limit(core.NewMemory(), perItem)).Get("/items/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

	for _, path := range []string{"/items/1", "/items/1", "/items/2", "/items/1?preview=yes"} {
		fmt.Println(path, ask(r, "GET", path).Code)
	}
	// Output:
	// /items/1 204
	// /items/1 429
	// /items/2 204
	// /items/1?preview=yes 204
}

func ExampleFromContext() {
	r := chi.NewRouter()
	r.Use(chilimit.Limit(core.NewMemory(), core.PerHour(5).By(keyfuncs.ClientIP()).Named("client")))
	r.Get("/", func(_ http.ResponseWriter, r *http.Request) {
		if d, ok := chilimit.FromContext(r.Context()); ok {
			binding, _ := d.Binding()
			fmt.Println(binding.Rule.Name, "has", binding.Remaining, "left")
		}
	})
	ask(r, "GET", "/")
	// Output: client has 4 left
}

// Everybody has less while the handlers behind the limiter are overloaded.
func ExampleWith_measure() {
	load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 200, Slow: time.Second})
	limit := core.PerHour(100).By(keyfuncs.ClientIP()).Scale(load.Factor)
	limits := chilimit.With(core.Config{Store: core.NewMemory()})

	r := chi.NewRouter()
	r.Use(limits.Limit(limit), limits.Measure(load))
	r.Get("/", func(http.ResponseWriter, *http.Request) { fmt.Println(load.InFlight(), "at work") })

	ask(r, "GET", "/")
	// Output: 1 at work
}
