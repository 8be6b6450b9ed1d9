package migrate

import (
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func echoOwn(e *echo.Echo) {
	e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStore(20)))
}

func fromEchoOwn(e *echo.Echo) {
	limits := echolimit.With(core.Config{Store: core.NewMemory(), HeadersWhen: core.Never})
	e.Use(limits.Limit(core.PerSecond(20).By(keyfuncs.ClientIP())))
}
