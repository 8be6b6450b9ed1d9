package redisstore_test

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

func TestMain(m *testing.M) {
	wait.Beside(8) // many wait for servers, time-outs and probes
	os.Exit(redistest.Main(m))
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return redisstore.NewAt(server.Client(t), clock.Micros, redisstore.Config{Prefix: redistest.Prefix(t)})
	})
}

func TestRedisOverRESP2(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr(), Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	storetest.RunRandom(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return redisstore.NewAt(client, clock.Micros, redisstore.Config{Prefix: redistest.Prefix(t)})
	})
}

// newStore returns a store with a key prefix of its own.
func newStore(t testing.TB, config ...redisstore.Config) (*redisstore.Store, *redistest.Server, string) {
	t.Helper()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	if len(config) == 0 {
		config = make([]redisstore.Config, 1)
	}
	config[0].Prefix = prefix
	return redisstore.New(server.Client(t), config...), server, prefix
}

func mustRule(t testing.TB, l core.Limit) *core.Rule {
	t.Helper()
	r := must.Get(l.Rule())(t)
	return &r
}

func take(t testing.TB, s core.Store, checks ...core.Check) []core.Result {
	t.Helper()
	results := make([]core.Result, len(checks))
	if err := s.Take(t.Context(), checks, results); err != nil {
		t.Fatalf("take: %v", err)
	}
	return results
}

func checkOf(key string, rule *core.Rule, cost int64) core.Check {
	return core.Check{Key: []byte(key), Rule: rule, Cost: cost}
}
