package migrate

import (
	"net/http"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

func throttledOwn(mux http.Handler) (http.Handler, error) {
	store, err := memstore.NewCtx(65536)
	if err != nil {
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(20), MaxBurst: 5})
	if err != nil {
		return nil, err
	}
	limit := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	handler := limit.RateLimit(mux)
	return handler, nil
}

func fromThrottled(mux http.Handler) http.Handler {
	limits := nethttp.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	handler := limits.Limit(core.PerMinute(20).Burst(6).By(keyfuncs.ClientIP()))(mux) // MaxBurst comes on top of one
	return handler
}
