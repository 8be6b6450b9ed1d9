package redistest

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
)

// Cluster is a running Redis Cluster. Its methods may be called concurrently.
type Cluster struct {
	nodes   []*Server // those that began as masters, then those that began as replicas
	masters int       // how many began as masters
	ids     map[*Server]string
}

// StartClusterOf starts a cluster for this test alone, on loopback, and stops it when the
// test ends. The slots are split evenly in the order of the masters, and each master has the
// given number of replicas. It returns once all nodes agree and all replicas are in sync.
//
// The nodes notice a dead master after three seconds, or after fifteen if there are no replicas
// that could take over. The other slots are still served, since cluster-require-full-coverage is
// off, and no replica moves to another master by itself. args are appended to the command line of
// every node and win over these settings:
//
//	redistest.StartClusterOf(t, 3, 1, "--cluster-node-timeout", "5000")
//
// Nodes keep their identity. A node that was killed and restarted comes back empty, to the
// same cluster, as a replica of the node that took its slots.
func StartClusterOf(tb testing.TB, masters, replicas int, args ...string) *Cluster {
	tb.Helper()
	requireBinary(tb)
	c := must.Get(startCluster(masters, replicas, args))(tb)
	tb.Cleanup(c.stop)
	return c
}

// SharedCluster returns the cluster that all tests of this binary share, or those of all binaries, as
// [Shared] does: three masters with one replica each. Tests use keys
// under their own [Prefix], and never kill, freeze or reconfigure a node or move a slot. It
// may be called concurrently.
func SharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	requireBinary(tb)
	requireMain(tb)
	return must.Get(sharedCluster())(tb)
}

// Nodes returns all nodes, dead ones too: first those that began as masters.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Masters returns the nodes that began as masters, dead ones too. MasterOf returns the
// current master of a slot.
func (c *Cluster) Masters() []*Server { return slices.Clone(c.nodes[:c.masters]) }

// Replicas returns the nodes that began as replicas, dead ones too: those of the first
// master, then those of the second, and so on.
func (c *Cluster) Replicas() []*Server { return slices.Clone(c.nodes[c.masters:]) }

// Client returns a new cluster client that knows all nodes, as [Server.Client] does, closed
// when the test ends.
func (c *Cluster) Client(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	return c.ClientWith(tb, &redis.ClusterOptions{PoolSize: roomy})
}

// ClientWith is [Cluster.Client] with the test's options. It sets Addrs unless the options do.
func (c *Cluster) ClientWith(tb testing.TB, options *redis.ClusterOptions) *redis.ClusterClient {
	tb.Helper()
	o := *options
	if o.Addrs == nil {
		for _, node := range c.nodes {
			o.Addrs = append(o.Addrs, node.addr)
		}
	}
	client := redis.NewClusterClient(&o)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

func (c *Cluster) stop() {
	for _, node := range c.nodes {
		node.Stop()
	}
}

// live returns the nodes that run and are not frozen.
func (c *Cluster) live() []*Server {
	return slices.DeleteFunc(c.Nodes(), func(node *Server) bool { return !node.live() })
}
