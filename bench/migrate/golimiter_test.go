package migrate

import (
	"net/http"
	"time"

	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

func goLimiter(mux http.Handler) (http.Handler, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: 10, Interval: time.Minute})
	if err != nil {
		return nil, err
	}
	middleware, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		return nil, err
	}
	handler := middleware.Handle(mux)
	return handler, nil
}

func fromGoLimiter(mux http.Handler) http.Handler {
	limits := nethttp.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimit})
	handler := limits.Limit(core.PerMinute(10).FixedWindow().By(keyfuncs.ClientIP()))(mux)
	return handler
}
