// Code generated from fiberlimit/example_test.go by make twins; DO NOT EDIT.

package fiber3limit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// ask sends a request to an app.
func ask(app *fiber.App, method, path string) response {
	res, err := app.Test(httptest.NewRequest(method, path, nil), fiber.TestConfig{})
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		panic(err)
	}
	return response{res, string(body)}
}

type response struct {
	*http.Response
	body string
}

func ExampleLimit() {
	store := core.NewMemory()

	app := fiber.New()
	app.Use(fiber3limit.Limit(store, core.PerHour(2).By(keyfuncs.ClientIP())))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })

	for range 3 {
		fmt.Println(ask(app, "GET", "/").StatusCode)
	}
	// Output:
	// 200
	// 200
	// 429
}

// Limits of a group and of one route in it add up.
func ExampleLimit_group() {
	store := core.NewMemory()

	app := fiber.New()
	api := app.Group("/api", fiber3limit.Limit(store,
		core.PerHour(600).By(keyfuncs.ClientIP()).Named("client"),
		core.PerHour(5000).By(keyfuncs.Everyone()).Named("global"),
	))
	api.Post("/export", fiber3limit.Limit(store,
		core.PerHour(20).By(keyfuncs.ClientIP()).Cost(10).Named("export"),
	), func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusAccepted) })

	fmt.Println(ask(app, "POST", "/api/export").Header.Get("RateLimit"))
	// Output: "client";r=599;t=3594, "global";r=4999;t=3600, "export";r=10;t=1800
}

// Health checks bypass the limits of all requests and of the route, and a denial tells of the
// limit that denied.
func ExampleWith() {
	limits := fiber3limit.With(core.Config{
		Store:   core.NewMemory(),
		Headers: core.XRateLimitDelta,
		Bypass:  []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
	}, fiber3limit.Config{
		Denied: func(c fiber.Ctx, d core.Decision) error { return c.Status(d.Status()).SendString("slow down") },
	})
	app := fiber.New()
	app.Use(limits.Limit(core.PerHour(100).By(keyfuncs.ClientIP()).Named("client")))
	login := core.PerHour(1).By(keyfuncs.ClientIP()).Named("login")
	app.Post("/login", limits.Limit(login), func(c fiber.Ctx) error { return c.SendString("welcome") })
	app.Get("/healthz", func(c fiber.Ctx) error { return c.SendString("fine") })

	for _, to := range []string{"POST /login", "POST /login", "GET /healthz"} {
		method, path, _ := strings.Cut(to, " ")
		res := ask(app, method, path)
		fmt.Printf("%s: %d, %q of %q left\n", path, res.StatusCode, res.Header.Get("X-RateLimit-Remaining"), res.Header.Get("X-RateLimit-Limit"))
	}
	// Output:
	// /login: 200, "0" of "1" left
	// /login: 429, "0" of "1" left
	// /healthz: 200, "" of "" left
}

// One limit for all routes, each counted for itself.
func ExampleLimit_perRoute() {
	limit := fiber3limit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.ClientIP(), keyfuncs.Route()))

	app := fiber.New()
	app.Use(limit)
	app.Get("/items/:id", func(c fiber.Ctx) error { return c.SendString("an item") })
	app.Get("/users/:id", func(c fiber.Ctx) error { return c.SendString("a user") })

	for _, path := range []string{"/items/1", "/items/2", "/users/1"} {
		fmt.Println(path, ask(app, "GET", path).StatusCode)
	}
	// Output:
	// /items/1 200
	// /items/2 429
	// /users/1 200
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
	app := fiber.New()
	app.Use(fiber3limit.New(limiter, fiber3limit.Config{
		Skip: func(c fiber.Ctx) bool { return c.Path() == "/healthz" },
		Denied: func(c fiber.Ctx, d core.Decision) error {
			return c.Status(d.Status()).JSON(fiber.Map{"error": "slow down"})
		},
	}))
	app.Get("/", func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) })
	app.Get("/healthz", func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) })

	fmt.Println(ask(app, "GET", "/").StatusCode)
	fmt.Println(ask(app, "GET", "/").StatusCode)
	fmt.Println(ask(app, "GET", "/healthz").StatusCode)
	// Output:
	// 204
	// 429
	// 204
}

// Each item has a bucket of its own, and previews are free.
func ExampleKey() {
	item := fiber3limit.Key("item", func(c fiber.Ctx) string { return c.Params("id") })
	preview := fiber3limit.Matches(func(c fiber.Ctx) bool { return c.Query("preview") == "yes" })
	perItem := core.PerHour(1).By(item).Unless(preview).Named("item")

	app := fiber.New()
	app.Get("/items/:id", fiber3limit.Limit(core.NewMemory(), perItem), func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) })

	for _, path := range []string{"/items/1", "/items/1", "/items/2", "/items/1?preview=yes"} {
		fmt.Println(path, ask(app, "GET", path).StatusCode)
	}
	// Output:
	// /items/1 204
	// /items/1 429
	// /items/2 204
	// /items/1?preview=yes 204
}

func ExampleFromContext() {
	app := fiber.New()
	app.Use(fiber3limit.Limit(core.NewMemory(), core.PerHour(5).By(keyfuncs.ClientIP()).Named("client")))
	app.Get("/", func(c fiber.Ctx) error {
		if d, ok := fiber3limit.FromContext(c); ok {
			binding, _ := d.Binding()
			fmt.Println(binding.Rule.Name, "has", binding.Remaining, "left")
		}
		return nil
	})
	ask(app, "GET", "/")
	// Output: client has 4 left
}

// Everybody has less while the handlers behind the limiter are overloaded.
func ExampleWith_measure() {
	load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 200, Slow: time.Second})
	limit := core.PerHour(100).By(keyfuncs.ClientIP()).Scale(load.Factor)
	limits := fiber3limit.With(core.Config{Store: core.NewMemory()})

	app := fiber.New()
	app.Use(limits.Limit(limit), limits.Measure(load))
	app.Get("/", func(fiber.Ctx) error {
		fmt.Println(load.InFlight(), "at work")
		return nil
	})

	ask(app, "GET", "/")
	// Output: 1 at work
}
