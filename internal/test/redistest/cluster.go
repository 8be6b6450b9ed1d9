package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"

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

// ClusterClient is [Server.Client] for a cluster.
func (s *Server) ClusterClient(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr}, PoolSize: roomy})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// formCluster gives the node all slots and waits until it serves them.
func (s *Server) formCluster() error {
	err := s.ask(func(ctx context.Context, c *redis.Client) error {
		return c.ClusterAddSlotsRange(ctx, 0, lastSlot).Err()
	})
	if err != nil {
		return fmt.Errorf("giving the node its slots: %w", err)
	}
	return await("cluster_state:ok", func() error {
		v, err := s.view()
		if err == nil && !v.ok {
			err = errors.New("it is not ok")
		}
		return err
	})
}
