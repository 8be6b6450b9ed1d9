package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// A node of a Cluster that left and came back has another client. Nobody is sent to the one that is closed.
func TestARedirectionLeadsToNoClosedClient(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	s := New(cluster.Client(t), Config{Prefix: redistest.Prefix(t)})
	r := s.route.(*clusterRoute)
	addr := cluster.Masters()[0].Addr()
	before := redis.NewClient(&redis.Options{Addr: addr})
	must.OK(t, before.Close())
	gone := r.learn(before)
	gone.closed.Store(true)
	for _, ask := range []bool{false, true} {
		n := must.Get(r.follow(t.Context(), gone, redirection{addr: addr, ask: ask}))(t)
		if n == gone || n.name != addr {
			t.Errorf("ASK %v: sent to %s, closed %v", ask, n.name, n.closed.Load())
		}
	}
}
