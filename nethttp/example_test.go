package nethttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// ask sends a request to a handler.
func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func ExampleLimit() {
	store := core.NewMemory()
	limit := nethttp.Limit(store, core.PerHour(2).By(keyfuncs.ClientIP()))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	handler := limit(mux)

	for range 3 {
		fmt.Println(ask(handler, "GET", "/").Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// Limits of one route go around its handler.
func ExampleLimit_route() {
	store := core.NewMemory()
	export := nethttp.Limit(store, core.PerHour(20).By(keyfuncs.ClientIP()).Cost(10).Named("export"))

	mux := http.NewServeMux()
	mux.Handle("POST /export", export(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))

	res := ask(mux, "POST", "/export")
	fmt.Println(res.Header().Get("RateLimit-Policy"))
	fmt.Println(res.Header().Get("RateLimit"))
	// Output:
	// "export";q=20;w=3600
	// "export";r=10;t=1800
}

// Health checks bypass the limits of all requests and of the route, and a denial tells of the
// limit that denied.
func ExampleWith() {
	limits := nethttp.With(core.Config{
		Store:   core.NewMemory(),
		Headers: core.XRateLimitDelta,
		Bypass:  []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
	}, nethttp.Config{
		Denied: func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			w.WriteHeader(d.Status())
			fmt.Fprint(w, "slow down")
		},
	})
	mux := http.NewServeMux()
	login := core.PerHour(1).By(keyfuncs.ClientIP()).Named("login")
	mux.Handle("POST /login", limits.Limit(login)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "welcome")
	})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })
	handler := limits.Limit(core.PerHour(100).By(keyfuncs.ClientIP()).Named("client"))(mux)

	for _, to := range []string{"POST /login", "POST /login", "GET /healthz"} {
		method, path, _ := strings.Cut(to, " ")
		res := ask(handler, method, path)
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
	limit := nethttp.New(limiter, nethttp.Config{
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Denied: func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			http.Error(w, "slow down", d.Status())
		},
	})
	handler := limit(http.NotFoundHandler())

	fmt.Println(ask(handler, "GET", "/").Code)
	fmt.Println(ask(handler, "GET", "/").Code)
	fmt.Println(ask(handler, "GET", "/healthz").Code)
	// Output:
	// 404
	// 429
	// 404
}

// Around a mux its routes are known.
func ExampleLimit_mux() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /users/{id}", func(http.ResponseWriter, *http.Request) {})

	limit := nethttp.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.ClientIP(), keyfuncs.Route()))
	handler := limit(mux)

	for _, path := range []string{"/items/1", "/items/2", "/users/1"} {
		fmt.Println(path, ask(handler, "GET", path).Code)
	}
	// Output:
	// /items/1 200
	// /items/2 429
	// /users/1 200
}

// Where something else stands between the limiter and the mux, the Config names it.
func ExampleConfig_mux() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})

	limiter := core.Must(core.New(core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{core.PerHour(1).By(keyfuncs.ClientIP())},
		Bypass: []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
	}))
	handler := nethttp.New(limiter, nethttp.Config{Mux: mux})(http.MaxBytesHandler(mux, 1<<20))

	for _, path := range []string{"/healthz", "/healthz", "/", "/"} {
		fmt.Println(path, ask(handler, "GET", path).Code)
	}
	// Output:
	// /healthz 200
	// /healthz 200
	// / 404
	// / 429
}

// Each item has a bucket of its own, and previews are free.
func ExampleKey() {
	item := nethttp.Key("item", func(r *http.Request) string { return r.PathValue("id") })
	preview := nethttp.Matches(func(r *http.Request) bool { return r.URL.Query().Get("preview") == "yes" })
	perItem := core.PerHour(1).By(item).Unless(preview).Named("item")

	mux := http.NewServeMux()
	show := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	mux.Handle("GET /items/{id}", nethttp.Limit(core.NewMemory(), perItem)(http.HandlerFunc(show)))

	for _, path := range []string{"/items/1", "/items/1", "/items/2", "/items/1?preview=yes"} {
		fmt.Println(path, ask(mux, "GET", path).Code)
	}
	// Output:
	// /items/1 204
	// /items/1 429
	// /items/2 204
	// /items/1?preview=yes 204
}

func ExampleFromContext() {
	limit := nethttp.Limit(core.NewMemory(), core.PerHour(5).By(keyfuncs.ClientIP()).Named("client"))
	handler := limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if d, ok := nethttp.FromContext(r.Context()); ok {
			binding, _ := d.Binding()
			fmt.Println(binding.Rule.Name, "has", binding.Remaining, "left")
		}
	}))
	ask(handler, "GET", "/")
	// Output: client has 4 left
}

// Everybody has less while the handlers behind the limiter are overloaded.
func ExampleWith_measure() {
	load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 200, Slow: time.Second})
	limit := core.PerHour(100).By(keyfuncs.ClientIP()).Scale(load.Factor)
	limits := nethttp.With(core.Config{Store: core.NewMemory()})

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) { fmt.Println(load.InFlight(), "at work") })
	handler := limits.Limit(limit)(limits.Measure(load)(mux))

	ask(handler, "GET", "/")
	// Output: 1 at work
}
