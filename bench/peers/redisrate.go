package peers

import (
	"context"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/go-redis/redis_rate/v10"
)

var redisRate = Peer{
	Name: "redis_rate", Module: "github.com/go-redis/redis_rate/v10", Counts: "GCRA, in floats",
	Redis: func(s Server, q Quota) (Limiter, error) {
		client := s.client()
		limiter := redis_rate.NewLimiter(client)
		limit := redis_rate.Limit{Rate: int(q.Units), Burst: int(q.Units), Period: q.Window}
		return Limiter{
			Check: func(ctx context.Context, key string) (bool, error) {
				r, err := limiter.Allow(ctx, key, limit)
				return err == nil && r.Allowed > 0, err
			},
			Close: func() { _ = client.Close() },
		}, nil
	},
	// It has no middleware: about what its users write.
	GinRedis: func(s Server, q Quota) (gin.HandlerFunc, error) {
		limiter := redis_rate.NewLimiter(s.client())
		limit := redis_rate.Limit{Rate: int(q.Units), Burst: int(q.Units), Period: q.Window}
		return func(c *gin.Context) {
			r, err := limiter.Allow(c.Request.Context(), c.ClientIP(), limit)
			if err != nil {
				c.AbortWithStatus(http.StatusServiceUnavailable)
				return
			}
			c.Header("RateLimit-Remaining", strconv.Itoa(r.Remaining))
			if r.Allowed == 0 {
				c.AbortWithStatus(http.StatusTooManyRequests)
			}
		}, nil
	},
}
