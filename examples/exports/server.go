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
// store. Further ones wait for a slot; the first that is free goes to whoever asks
// first. A slot is free again when its request is over, whatever became of it, and
// a quarter of a minute after its process died.
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
