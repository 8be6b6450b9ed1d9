package migrate

import (
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func echo5Own(e *echo.Echo) {
	e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStore(20)))
}

func fromEcho5Own(e *echo.Echo) {
	limits := echo5limit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	e.Use(limits.Limit(core.PerSecond(20).By(keyfuncs.ClientIP())))
}

func onEcho5(setUp func(*echo.Echo)) server {
	e := echo.New()
	setUp(e)
	e.GET("/", echo.WrapHandler(page))
	return served(e)
}
