package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// newServer runs two exports at a time for each client, over all processes on the
// store. Others wait for a slot: the next free one goes to the first request that
// asks. A slot is freed when its request ends, however it ends, or a quarter of a
// minute after its process died.
func newServer(store core.Store, wait time.Duration, export func(context.Context)) *echo.Echo {
	e := echo.New()
	e.Use(middleware.Recover())
	e.POST("/export", func(c echo.Context) error {
		export(c.Request().Context())
		d, _ := echolimit.FromContext(c)
		return c.String(http.StatusOK, fmt.Sprintf("exported, waited %v\n", d.Delay().Round(time.Millisecond)))
	}, echolimit.Limit(store,
		core.Concurrent(2).By(keyfuncs.ClientIP()).Named("exports").Lease(15*time.Second).Wait(wait),
	))
	return e
}
