// Code generated from fiberlimit/example_usage_test.go by make twins; DO NOT EDIT.

package fiber3limit_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"

	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/usage"
)

// Clients ask for their own limits, behind what authenticates them and ten times a minute at most. It takes nothing of the limits
// that are told.
func ExampleUsage() {
	store := core.NewMemory()
	limiter := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{
		core.PerDay(1000).FixedWindow().By(keyfuncs.User("user")).Named("requests"),
		core.PerHour(5).By(keyfuncs.User("user")).Named("against-abuse").Hidden(),
	}}))
	own := usage.New(usage.Config{Limiters: []*core.Limiter{limiter}})
	limits := fiber3limit.With(core.Config{Store: store})
	polls := limits.Limit(core.PerMinute(10).By(keyfuncs.User("user")).Named("polls"))

	app := fiber.New()
	app.Use(func(c fiber.Ctx) error { // authentication
		c.Locals("user", "ann")
		return c.Next()
	})
	app.Get("/orders", fiber3limit.New(limiter), func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) })
	app.Get("/rate_limit", polls, fiber3limit.Usage(own))

	for _, path := range []string{"/orders", "/orders", "/rate_limit"} {
		res, err := app.Test(httptest.NewRequest("GET", path, nil), fiber.TestConfig{})
		if err != nil {
			fmt.Println(err)
			return
		}
		var told struct {
			Limits map[string]struct{ Limit, Used, Remaining int64 }
		}
		if path == "/rate_limit" {
			if err := json.NewDecoder(res.Body).Decode(&told); err != nil {
				fmt.Println(err)
			}
		}
		_ = res.Body.Close()
		fmt.Println(path, told.Limits)
	}
	// Output:
	// /orders map[]
	// /orders map[]
	// /rate_limit map[requests:{1000 2 998}]
}
