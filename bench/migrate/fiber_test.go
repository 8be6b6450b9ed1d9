package migrate

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/limiter"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func fiberFixed(app *fiber.App) {
	app.Use(limiter.New(limiter.Config{Max: 10, Expiration: time.Minute}))
}

func fromFiberFixed(app *fiber.App) {
	limits := fiberlimit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	app.Use(limits.Limit(core.PerMinute(10).FixedWindow().By(keyfuncs.ClientIP())))
}

func fiberSliding(app *fiber.App) {
	app.Use(limiter.New(limiter.Config{Max: 10, Expiration: time.Minute, LimiterMiddleware: limiter.SlidingWindow{}}))
}

func fromFiberSliding(app *fiber.App) {
	limits := fiberlimit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	app.Use(limits.Limit(core.PerMinute(10).SlidingWindow().By(keyfuncs.ClientIP())))
}

// Only failed logins count.
func fiberLogin(app *fiber.App, login fiber.Handler) {
	app.Post("/login", limiter.New(limiter.Config{Max: 3, Expiration: time.Hour, SkipSuccessfulRequests: true}), login)
}

func fromFiberLogin(app *fiber.App, login fiber.Handler) {
	limits := fiberlimit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	app.Post("/login", limits.Limit(core.PerHour(3).FixedWindow().By(keyfuncs.ClientIP()).RefundOn(core.Successes)), login)
}
