package ginlimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
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
	limits := ginlimit.With(core.Config{Store: store})
	polls := limits.Limit(core.PerMinute(10).By(keyfuncs.User("user")).Named("polls"))

	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("user", "ann") }) // authentication
	r.GET("/orders", ginlimit.New(limiter), func(c *gin.Context) { c.Status(http.StatusNoContent) })
	r.GET("/rate_limit", polls, ginlimit.Usage(own))

	for _, path := range []string{"/orders", "/orders", "/rate_limit"} {
		res := httptest.NewRecorder()
		r.ServeHTTP(res, httptest.NewRequest("GET", path, nil))
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
