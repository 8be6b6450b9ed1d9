package redisstore_test

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/keyfuncs"
)

func ExamplePrefetch() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})

	// Up to a hundred processes share one limit for everyone. Each holds at most
	// 1 % of what is left, for at most 200 ms, and decides by itself meanwhile.
	store := redisstore.New(rdb, redisstore.Config{
		Prefetch: redisstore.Prefetch{Fraction: 0.01, MaxAge: 200 * time.Millisecond},
	})

	_ = core.Must(core.New(core.Config{
		Store:  store,
		Limits: []core.Limit{core.PerSecond(500_000).By(keyfuncs.Everyone())},
	}))
	// Output:
}
