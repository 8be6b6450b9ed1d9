package nethttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
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
	limits := nethttp.With(core.Config{Store: store})
	polls := limits.Limit(core.PerMinute(10).By(keyfuncs.User("user")).Named("polls"))

	authenticate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), "user", "ann"))) //nolint:staticcheck,revive // SA1029: as keyfuncs.User reads it
		})
	}
	mux := http.NewServeMux()
	mux.Handle("GET /orders", nethttp.New(limiter)(http.NotFoundHandler()))
	mux.Handle("GET /rate_limit", polls(nethttp.Usage(own)))
	app := authenticate(mux)

	for _, path := range []string{"/orders", "/orders", "/rate_limit"} {
		res := httptest.NewRecorder()
		app.ServeHTTP(res, httptest.NewRequest("GET", path, nil))
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
