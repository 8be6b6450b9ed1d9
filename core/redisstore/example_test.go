package redisstore_test

import (
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/keyfuncs"
)

func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	store := redisstore.New(rdb)

	// The limiter is made without talking to Redis, which may come up later.
	_ = core.Must(core.New(core.Config{
		Store:  store,
		Limits: []core.Limit{core.PerMinute(300).By(keyfuncs.ClientIP())},
	}))
	// Output:
}

func ExampleConfig() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:7000"}})

	// All keys in one slot: any limits are decided by one node, atomically.
	_ = redisstore.New(rdb, redisstore.Config{Prefix: "{limits}:"})
	// Output:
}
