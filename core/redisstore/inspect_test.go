package redisstore_test

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

func TestInspectFindsARedisThatEvictsLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	backend := redisstore.New(client)
	for _, c := range []struct {
		maxmemory, policy string
		evicts            bool
	}{
		{"0", "noeviction", false},
		{"0", "volatile-lru", false}, // memory is not limited
		{"100mb", "noeviction", false},
		{"100mb", "volatile-ttl", true},
		{"100mb", "allkeys-lru", true},
	} {
		for name, value := range map[string]string{"maxmemory": c.maxmemory, "maxmemory-policy": c.policy} {
			must.OK(t, client.ConfigSet(t.Context(), name, value).Err())
		}
		problem, err := backend.Registry().Server().Eviction(t.Context())
		if err != nil || (problem != "") != c.evicts {
			t.Errorf("%s, %s: problem %q, error %v", c.maxmemory, c.policy, problem, err)
		}
		if c.evicts && !strings.Contains(problem, c.policy) {
			t.Errorf("%s, %s: %q", c.maxmemory, c.policy, problem)
		}
	}
}
