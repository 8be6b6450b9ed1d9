package migrate

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/keyfuncs"
)

// An ask asks for one unit.
type ask func(context.Context) (allowed bool, remaining int64, wait time.Duration, err error)

func redisRate(rdb *redis.Client) ask {
	limiter := redis_rate.NewLimiter(rdb)
	allow := func(ctx context.Context) (bool, int64, time.Duration, error) {
		res, err := limiter.Allow(ctx, "project:123", redis_rate.PerMinute(10))
		if err != nil {
			return false, 0, 0, err
		}
		return res.Allowed > 0, int64(res.Remaining), res.RetryAfter, nil
	}
	return allow
}

func fromRedisRate(rdb *redis.Client) ask {
	limiter := core.Must(core.New(core.Config{
		Store:  redisstore.New(rdb),
		Limits: []core.Limit{core.PerMinute(10).By(keyfuncs.Tenant("project")).Named("project")},
	}))
	allow := func(ctx context.Context) (bool, int64, time.Duration, error) {
		d := limiter.AllowKey(ctx, "project:123", 1)
		limit, _ := d.Binding()
		return d.Allowed, limit.Remaining, d.RetryAfter, d.Err
	}
	return allow
}
