package echolimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
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
	limits := echolimit.With(core.Config{Store: store})
	polls := limits.Limit(core.PerMinute(10).By(keyfuncs.User("user")).Named("polls"))

	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // authentication
		return func(c echo.Context) error {
			c.Set("user", "ann")
			return next(c)
		}
	})
	e.GET("/orders", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }, echolimit.New(limiter))
	e.GET("/rate_limit", echolimit.Usage(own), polls)

	for _, path := range []string{"/orders", "/orders", "/rate_limit"} {
		res := httptest.NewRecorder()
		e.ServeHTTP(res, httptest.NewRequest("GET", path, nil))
		var told struct {
			Limits map[string]struct{ Limit, Used, Remaining int64 }
		}
		if path == "/rate_limit" {
			if err := json.NewDecoder(res.Body).Decode(&told); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println(path, told.Limits)
	}
	// Output:
	// /orders map[]
	// /orders map[]
	// /rate_limit map[requests:{1000 2 998}]
}
