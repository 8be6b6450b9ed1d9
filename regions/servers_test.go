package regions_test

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// A region's store and home can be single servers or Clusters: two regions with many callers grant a day's quota once, all
// of it.
func TestRegionsOnServersAndClusters(t *testing.T) {
	t.Parallel()
	server := func(t *testing.T) redis.UniversalClient { return redistest.Shared(t).Client(t) }
	cluster := func(t *testing.T) redis.UniversalClient { return redistest.SharedCluster(t).Client(t) }
	for name, of := range map[string]struct {
		local, home func(*testing.T) redis.UniversalClient
	}{
		"servers, home is a Cluster": {server, cluster},
		"Clusters, home is a server": {cluster, server},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := redistest.Prefix(t)
			home := func() core.Store {
				return redisstore.New(of.home(t), redisstore.Config{Prefix: prefix + "home:"})
			}
			var limiters []*core.Limiter
			for _, region := range []string{"eu", "us"} {
				local := redisstore.New(of.local(t), redisstore.Config{Prefix: prefix + region + ":"})
				s := must.Get(regions.New(local, home(), regions.Config{Region: region, Regions: 2}))(t)
				limiters = append(limiters, must.Get(core.New(core.Config{
					Store: s, Timeout: store.MaxTimeout,
					Limits: []core.Limit{
						core.Per(1000, 365*24*time.Hour).FixedWindow().By(keyfuncs.Everyone()),
					},
				}))(t))
			}
			var granted atomic.Int64
			wait.Until(t, "home has learned, and all is granted", func() bool {
				granted.Add(storm(t, limiters))
				return granted.Load() >= 1000
			})
			granted.Add(storm(t, limiters))
			check.Equal(t, "granted", granted.Load(), 1000)
		})
	}
}

// storm has ten callers of each limiter ask ten times, and returns how many they were granted.
func storm(t *testing.T, limiters []*core.Limiter) (granted int64) {
	t.Helper()
	var sum atomic.Int64
	var wg sync.WaitGroup
	for _, l := range limiters {
		for range 10 {
			wg.Go(func() {
				for range 10 {
					d := l.AllowKey(t.Context(), "client", 1)
					check.OK(t, d.Err)
					if d.Allowed {
						sum.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return sum.Load()
}
