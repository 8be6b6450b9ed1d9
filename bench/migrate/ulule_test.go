package migrate

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

func ululeGin(r *gin.Engine) error {
	rate, err := limiter.NewRateFromFormatted("10-M")
	if err != nil {
		return err
	}
	r.Use(ululegin.NewMiddleware(limiter.New(memory.NewStore(), rate)))
	return nil
}

func fromUluleGin(r *gin.Engine) {
	limits := ginlimit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimit})
	r.Use(limits.Limit(core.PerMinute(10).FixedWindow().By(keyfuncs.ClientIP())))
}

func ululeRedis(rdb *redis.Client, mux http.Handler) (http.Handler, error) {
	store, err := ululeredis.NewStore(rdb)
	if err != nil {
		return nil, err
	}
	rate := limiter.Rate{Period: time.Minute, Limit: 10}
	handler := stdlib.NewMiddleware(limiter.New(store, rate)).Handler(mux)
	return handler, nil
}

func fromUluleRedis(rdb *redis.Client, mux http.Handler) http.Handler {
	limits := nethttp.With(core.Config{Store: redisstore.New(rdb), Headers: core.XRateLimit})
	handler := limits.Limit(core.PerMinute(10).FixedWindow().By(keyfuncs.ClientIP()))(mux)
	return handler
}
