package core_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// While the database is being rebuilt, everybody gets half.
func ExampleLimit_Scale() {
	rebuilding := true
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(100).By(keyfuncs.User("userID")).Scale(func(context.Context) float64 {
			if rebuilding {
				return 0.5
			}
			return 1
		}),
	})
	d := limiter.AllowKey(context.Background(), "user:42", 10)
	fmt.Println(d.Allowed, d.Results()[0].Remaining)
	// Output: true 40
}

// Clients get less while more than 200 requests are in flight, or the slowest of a
// hundred take longer than half a second.
func ExampleLoad() {
	load := new(core.Load)
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(100).By(keyfuncs.User("userID")).Scale(load.Factor(200, 500*time.Millisecond)),
	})
	handler := load.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println(load.InFlight(), "in flight")
	}))
	if d := limiter.AllowKey(context.Background(), "user:42", 1); d.Allowed {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	// Output: 1 in flight
}
