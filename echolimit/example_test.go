package echolimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func ExampleLimit() {
	store := core.NewMemory()

	e := echo.New()
	e.Use(echolimit.Limit(store, core.PerHour(2).By(keyfuncs.ClientIP())))
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "hello") })

	for range 3 {
		fmt.Println(ask(e, "GET", "/").Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// Limits of a group and of one route in it add up.
func ExampleLimit_group() {
	store := core.NewMemory()

	e := echo.New()
	api := e.Group("/api", echolimit.Limit(store,
		core.PerHour(600).By(keyfuncs.ClientIP()).Named("client"),
		core.PerHour(5000).By(keyfuncs.Everyone()).Named("global"),
	))
	api.POST("/export", func(c echo.Context) error { return c.NoContent(http.StatusAccepted) }, echolimit.Limit(store,
		core.PerHour(20).By(keyfuncs.ClientIP()).Cost(10).Named("export"),
	))

	fmt.Println(ask(e, "POST", "/api/export").Header().Get("RateLimit"))
	// Output: "client";r=599;t=3594, "global";r=4999;t=3600, "export";r=10;t=1800
}

// Health checks bypass the limits of all requests and of the route, and a denial tells of the
// limit that denied.
func ExampleWith() {
	limits := echolimit.With(core.Config{
		Store:   core.NewMemory(),
		Headers: core.XRateLimitDelta,
		Bypass:  []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
	}, echolimit.Config{
		Denied: func(c echo.Context, d core.Decision) error { return c.String(d.Status(), "slow down") },
	})
	e := echo.New()
	e.Use(limits.Limit(core.PerHour(100).By(keyfuncs.ClientIP()).Named("client")))
	login := core.PerHour(1).By(keyfuncs.ClientIP()).Named("login")
	e.POST("/login", func(c echo.Context) error { return c.String(http.StatusOK, "welcome") }, limits.Limit(login))
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "fine") })

	for _, to := range []string{"POST /login", "POST /login", "GET /healthz"} {
		method, path, _ := strings.Cut(to, " ")
		res := ask(e, method, path)
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
	e := echo.New()
	e.Use(echolimit.New(limiter, echolimit.Config{
		Skip: func(c echo.Context) bool { return c.Path() == "/healthz" },
		Denied: func(c echo.Context, d core.Decision) error {
			return c.JSON(d.Status(), map[string]string{"error": "slow down"})
		},
	}))
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	e.GET("/healthz", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })

	fmt.Println(ask(e, "GET", "/").Code)
	fmt.Println(ask(e, "GET", "/").Code)
	fmt.Println(ask(e, "GET", "/healthz").Code)
	// Output:
	// 204
	// 429
	// 204
}

// Each item has a bucket of its own, and previews are free.
func ExampleKey() {
	item := echolimit.Key("item", func(c echo.Context) string { return c.Param("id") })
	preview := echolimit.Matches(func(c echo.Context) bool { return c.QueryParam("preview") == "yes" })
	perItem := core.PerHour(1).By(item).Unless(preview).Named("item")

	e := echo.New()
	e.GET("/items/:id", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }, echolimit.Limit(core.NewMemory(), perItem))

	for _, path := range []string{"/items/1", "/items/1", "/items/2", "/items/1?preview=yes"} {
		fmt.Println(path, ask(e, "GET", path).Code)
	}
	// Output:
	// /items/1 204
	// /items/1 429
	// /items/2 204
	// /items/1?preview=yes 204
}

func ExampleFromContext() {
	e := echo.New()
	e.Use(echolimit.Limit(core.NewMemory(), core.PerHour(5).By(keyfuncs.ClientIP()).Named("client")))
	e.GET("/", func(c echo.Context) error {
		if d, ok := echolimit.FromContext(c); ok {
			binding, _ := d.Binding()
			fmt.Println(binding.Rule.Name, "has", binding.Remaining, "left")
		}
		return nil
	})
	ask(e, "GET", "/")
	// Output: client has 4 left
}

// Everybody has less while the handlers behind the limiter are overloaded.
func ExampleWith_measure() {
	load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 200, Slow: time.Second})
	limit := core.PerHour(100).By(keyfuncs.ClientIP()).Scale(load.Factor)
	limits := echolimit.With(core.Config{Store: core.NewMemory()})

	e := echo.New()
	e.Use(limits.Limit(limit), limits.Measure(load))
	e.GET("/", func(echo.Context) error {
		fmt.Println(load.InFlight(), "at work")
		return nil
	})

	ask(e, "GET", "/")
	// Output: 1 at work
}
