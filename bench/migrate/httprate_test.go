package migrate

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/keyfuncs"
)

func httpRate(r chi.Router) {
	r.Use(middleware.ClientIPFromRemoteAddr)
	r.Use(httprate.LimitBy(10, time.Minute, func(r *http.Request) (string, error) {
		return httprate.CanonicalizeIP(middleware.GetClientIP(r.Context())), nil
	}))
}

func fromHTTPRate(r chi.Router) {
	limits := chilimit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimit})
	r.Use(limits.Limit(core.PerMinute(10).SlidingWindow().By(keyfuncs.ClientIP())))
}

func httpRateRedis(r chi.Router, rdb *redis.Client) {
	clientIP := func(r *http.Request) (string, error) {
		return httprate.CanonicalizeIP(middleware.GetClientIP(r.Context())), nil
	}
	r.Use(middleware.ClientIPFromRemoteAddr, httprate.LimitBy(10, time.Minute, clientIP,
		httprateredis.WithRedisLimitCounter(&httprateredis.Config{Client: rdb, WindowLength: time.Minute})))
}

func fromHTTPRateRedis(r chi.Router, rdb *redis.Client) {
	limits := chilimit.With(core.Config{Store: redisstore.New(rdb), Headers: core.XRateLimit})
	r.Use(limits.Limit(core.PerMinute(10).SlidingWindow().By(keyfuncs.ClientIP())))
}
