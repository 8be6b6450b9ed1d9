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
	storetest.Run(t, onRedis(redistest.Shared(t).Client(t), redisstore.Config{}))
}

func TestRedisIsDivided(t *testing.T) {
	t.Parallel()
	storetest.Fair(t, onRedis(redistest.Shared(t).Client(t), redisstore.Config{}))
}

func TestRedisOverRESP2(t *testing.T) {
	t.Parallel()
	storetest.RunRandom(t, onRedis(redistest.Shared(t).ClientWith(t, &redis.Options{Protocol: 2}), redisstore.Config{}))
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

// takeOne is take of one check that may fail.
func takeOne(t testing.TB, s core.Store, c core.Check) (core.Result, error) {
	results := make([]core.Result, 1)
	err := s.Take(t.Context(), []core.Check{c}, results)
	return results[0], err
}

func peek(t testing.TB, s core.Store, c core.Check) core.Result {
	t.Helper()
	results := make([]core.Result, 1)
	must.OK(t, s.Peek(t.Context(), []core.Check{c}, results))
	return results[0]
}

// onRedis returns stores on a client that decide at the times of a test's clock.
func onRedis(client redis.UniversalClient, config redisstore.Config) storetest.Factory {
	return func(t *testing.T, clock *storetest.Clock) core.Store {
		config := config
		config.Prefix = redistest.Prefix(t)
		s := redisstore.NewAt(client, clock.Micros, config)
		s.AroundRemovals(clock.Still)
		return s
	}
}

func checkOf(key string, rule *core.Rule, cost int64) core.Check {
	return core.Check{Key: []byte(key), Rule: rule, Cost: cost}
}
