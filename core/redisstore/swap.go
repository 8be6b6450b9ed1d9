package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

var (
	//go:embed lua/swap.lua
	swapSource string
	swapScript = exchangeScript{swapSource, redis.NewScript(swapSource).Hash()}
)

// swapBytes is how long a value of swap is at most: see [store.Server].
const swapBytes = 1024

// swap is [store.Server].Swap, beside the snapshots of the exchange and by its rules: it needs no
// permission that the store does not need, and disturbs no check.
func (s *Store) swap(ctx context.Context, keys, values []string, ttl time.Duration) ([]string, error) {
	e := s.Exchange()
	places, args := make([]any, len(keys)), []any{ttl.Milliseconds(), swapBytes}
	for i := range keys {
		places[i], args = e.key("swap:"+keys[i]), append(args, values[i])
	}
	reply, err := e.script(ctx, swapScript, places, args...)
	if err != nil {
		return nil, err
	}
	all, ok := reply.([]any)
	if !ok || len(all) != len(keys) {
		return nil, &store.Error{Class: store.ClassValue, Err: fmt.Errorf("a %T for %d values", reply, len(keys))}
	}
	before := make([]string, len(keys))
	for i := range all {
		before[i], _ = all[i].(string)
	}
	return before, nil
}
