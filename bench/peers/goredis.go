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
	Name: "go-redis-script", Module: "github.com/redis/go-redis/v9", Counts: "fixed window in a script of five lines", Baseline: true,
	Redis: func(s Server, q Quota) (Limiter, error) {
		client, script := s.client(), redis.NewScript(fixedWindow)
		window := q.Window.Milliseconds()
		return Limiter{
			Check: func(ctx context.Context, key string) (bool, error) {
				n, err := script.Run(ctx, client, []string{"lean:" + key}, window).Int64()
				return err == nil && n <= q.Units, err
			},
			Close: func() { _ = client.Close() },
		}, nil
	},
}
