package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// ask sends a request to an engine.
func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func ExampleLimit() {
	store := core.NewMemory()

	r := gin.New()
	r.Use(ginlimit.Limit(store, core.PerHour(2).By(keyfuncs.ClientIP())))
	r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })

	for range 3 {
		fmt.Println(ask(r, "GET", "/").Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// Limits of a group and of one route in it add up.
func ExampleLimit_group() {
	store := core.NewMemory()

	r := gin.New()
	api := r.Group("/api", ginlimit.Limit(store,
		core.PerHour(600).By(keyfuncs.ClientIP()).Named("client"),
		core.PerHour(5000).By(keyfuncs.Everyone()).Named("global"),
	))
	api.POST("/export", ginlimit.Limit(store,
		core.PerHour(20).By(keyfuncs.ClientIP()).Cost(10).Named("export"),
	), func(c *gin.Context) { c.Status(http.StatusAccepted) })

	fmt.Println(ask(r, "POST", "/api/export").Header().Get("RateLimit"))
	// Output: "client";r=599;t=3594, "global";r=4999;t=3600, "export";r=10;t=1800
}

// Health checks bypass the limits of all requests and of the route, and a denial tells of the
// limit that denied.
func ExampleWith() {
	limits := ginlimit.With(core.Config{
		Store:   core.NewMemory(),
		Headers: core.XRateLimitDelta,
		Bypass:  []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
	}, ginlimit.Config{
		Denied: func(c *gin.Context, d core.Decision) { c.String(d.Status(), "slow down") },
	})
	r := gin.New()
	r.Use(limits.Limit(core.PerHour(100).By(keyfuncs.ClientIP()).Named("client")))
	login := core.PerHour(1).By(keyfuncs.ClientIP()).Named("login")
	r.POST("/login", limits.Limit(login), func(c *gin.Context) { c.String(http.StatusOK, "welcome") })
	r.GET("/healthz", func(c *gin.Context) { c.String(http.StatusOK, "fine") })

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
	r := gin.New()
	r.Use(ginlimit.New(limiter, ginlimit.Config{
		Skip: func(c *gin.Context) bool { return c.FullPath() == "/healthz" },
		Denied: func(c *gin.Context, d core.Decision) {
			c.JSON(d.Status(), gin.H{"error": "slow down"})
		},
	}))
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	r.GET("/healthz", func(c *gin.Context) { c.Status(http.StatusNoContent) })

	fmt.Println(ask(r, "GET", "/").Code)
	fmt.Println(ask(r, "GET", "/").Code)
	fmt.Println(ask(r, "GET", "/healthz").Code)
	// Output:
	// 204
	// 429
	// 204
}

// Each item has a bucket of its own, and previews are free.
func ExampleKey() {
	item := ginlimit.Key("item", func(c *gin.Context) string { return c.Param("id") })
	preview := ginlimit.Matches(func(c *gin.Context) bool { return c.Query("preview") == "yes" })
	perItem := core.PerHour(1).By(item).Unless(preview).Named("item")

	r := gin.New()
	r.GET("/items/:id", ginlimit.Limit(core.NewMemory(), perItem), func(c *gin.Context) { c.Status(http.StatusNoContent) })

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
	r := gin.New()
	r.Use(ginlimit.Limit(core.NewMemory(), core.PerHour(5).By(keyfuncs.ClientIP()).Named("client")))
	r.GET("/", func(c *gin.Context) {
		if d, ok := ginlimit.FromContext(c); ok {
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
	limits := ginlimit.With(core.Config{Store: core.NewMemory()})

	r := gin.New()
	r.Use(limits.Limit(limit), limits.Measure(load))
	r.GET("/", func(*gin.Context) { fmt.Println(load.InFlight(), "at work") })

	ask(r, "GET", "/")
	// Output: 1 at work
}
