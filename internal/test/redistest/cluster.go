package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// lastSlot is the highest hash slot of Redis Cluster.
const lastSlot = 16_383

// StartCluster starts a cluster of one node that owns all hash slots, for this test alone.
// It refuses a command or script whose keys are in several slots, and never redirects, as
// [StartClusterOf] does. A node waits 2 s before it takes its slots, so tests that can share
// a cluster should.
func StartCluster(tb testing.TB) *Server {
	tb.Helper()
	s := StartTCP(tb, "--cluster-enabled", "yes", "--cluster-announce-ip", loopback)
	if err := s.formCluster(); err != nil {
		tb.Fatalf("redistest: %v\n%s", err, s.logTail())
	}
	return s
}

// ClusterClient returns a new cluster client of this server, closed when the test ends.
func (s *Server) ClusterClient(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr}})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// formCluster gives the node all slots and waits until it serves them.
func (s *Server) formCluster() error {
	ctx, cancel := timeout()
	defer cancel()
	c := redis.NewClient(&redis.Options{Network: s.network, Addr: s.addr})
	defer func() { _ = c.Close() }()
	if err := c.Do(ctx, "cluster", "addslotsrange", 0, lastSlot).Err(); err != nil {
		return fmt.Errorf("giving the node its slots: %w", err)
	}
	for {
		info, err := c.ClusterInfo(ctx).Result()
		if err != nil {
			return fmt.Errorf("waiting for cluster_state:ok: %w", err)
		}
		if strings.Contains(info, "cluster_state:ok") {
			return nil
		}
		time.Sleep(10 * time.Millisecond) // ctx ends the loop by way of ClusterInfo
	}
}
