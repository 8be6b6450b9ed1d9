package peers

import (
	"context"

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
}
