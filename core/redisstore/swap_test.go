package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Stores with one prefix see what the others have written, and nobody else does. What is written expires.
func TestValuesAreSwapped(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t)
	for name, client := range map[string]redis.UniversalClient{
		"one server": redistest.Shared(t).Client(t),
		"a Cluster":  redistest.SharedCluster(t).Client(t),
		"a Ring":     ring,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := redistest.Prefix(t)
			swap := func(prefix, a, b string) []string {
				s := redisstore.New(client, redisstore.Config{Prefix: prefix})
				return must.Get(s.Registry().Server().Swap(t.Context(), []string{"a", "b"}, []string{a, b}, time.Minute))(t)
			}
			check.Slices(t, "the first finds", swap(prefix, "1", "2"), []string{"", ""})
			check.Slices(t, "the second finds", swap(prefix, "3", "4"), []string{"1", "2"})
			check.Slices(t, "with another prefix", swap(prefix+"other:", "5", "6"), []string{"", ""})
			check.Slices(t, "the first finds again", swap(prefix, "1", "2"), []string{"3", "4"})
			keys := must.Get(client.Keys(t.Context(), prefix+"*swap:*").Result())(t)
			if name == "one server" {
				check.Equal(t, "keys", len(keys), 4)
				for _, key := range keys {
					left := must.Get(client.PTTL(t.Context(), key).Result())(t)
					check.Equal(t, "expires within a minute", left > 0 && left <= time.Minute, true)
				}
			}
		})
	}
}
