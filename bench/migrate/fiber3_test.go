package migrate

import (
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func fiber3Plans(app *fiber.App) {
	app.Use(limiter.New(limiter.Config{Expiration: time.Minute, MaxFunc: func(c fiber.Ctx) int {
		if c.Locals("plan") == "premium" {
			return 1000
		}
		return 10
	}}))
}

func fromFiber3Plans(app *fiber.App) {
	limits := fiber3limit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	app.Use(limits.Limit(core.PerMinute(10).FixedWindow().By(keyfuncs.ClientIP()).Tiers(func(r keyfuncs.Request) core.Limit {
		if r.Value("plan") == "premium" {
			return core.PerMinute(1000).FixedWindow()
		}
		return core.Limit{} // 10
	})))
}

func onFiber3(setUp func(*fiber.App)) server {
	app := fiber.New()
	setUp(app)
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })
	return onFastHTTP(app.Handler())
}
