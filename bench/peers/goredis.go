package peers

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed fixedwindow.lua
var fixedWindow string

// goRedisScript is what one round trip and a lean script cost on go-redis.
var goRedisScript = Peer{
	Name: "go-redis-script", Module: goRedisModule, Counts: "fixed window in a script of five lines", Baseline: true,
	Redis: func(s Server, q Quota) (Limiter, error) {
		client := s.client()
		return leanOn(client, client, q), nil
	},
}

// goRedisAuto is the same script on the pipeliner that go-redis has built in, with its
// defaults for callers that wait: one batch at a time. More at a time were slower.
var goRedisAuto = autoPeer("go-redis-auto", "the same script, by go-redis's AutoPipeline", redis.DefaultBlockingAutoPipelineOptions())

// goRedisDuplex is the same again, written and read at the same time.
var goRedisDuplex = autoPeer("go-redis-duplex", "the same script, by AutoPipeline with FullDuplex", func() *redis.AutoPipelineOptions {
	o := redis.DefaultBlockingAutoPipelineOptions()
	o.FullDuplex = true
	return o
}())

const goRedisModule = "github.com/redis/go-redis/v9"

func autoPeer(name, counts string, options *redis.AutoPipelineOptions) Peer {
	return Peer{
		Name: name, Module: goRedisModule, Counts: counts, Baseline: true,
		Redis: func(s Server, q Quota) (Limiter, error) {
			client := s.client()
			auto, err := client.AutoPipelineWithOptions(options)
			if err != nil {
				return Limiter{}, err
			}
			return leanOn(client, auto, q), nil
		},
	}
}

// leanOn makes checks with the script, through the client or a pipeliner on it.
func leanOn(client *redis.Client, through redis.Scripter, q Quota) Limiter {
	script, window := redis.NewScript(fixedWindow), q.Window.Milliseconds()
	return Limiter{
		Check: func(ctx context.Context, key string) (bool, error) {
			n, err := script.Run(ctx, through, []string{"lean:" + key}, window).Int64()
			return err == nil && n <= q.Units, err
		},
		Close: func() { _ = client.Close() },
	}
}
