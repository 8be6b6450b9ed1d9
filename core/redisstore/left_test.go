package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// nobody listens there.
const nobody = "127.0.0.1:1"

// openNodes are the nodes whose breaker is open by a store's events.
type openNodes struct {
	mu    sync.Mutex
	nodes map[string]bool // Guarded by mu.
}

func openNodesOf(s *Store) *openNodes {
	o := &openNodes{nodes: make(map[string]bool)}
	s.Registry().Watch(func(e core.Event) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch e.Kind {
		case store.EventBreakerOpened:
			o.nodes[e.Node] = true
		case store.EventBreakerClosed:
			delete(o.nodes, e.Node)
		}
	})
	s.OnEvent(func(core.Event) {})
	return o
}

func (o *openNodes) has(node string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nodes[node]
}

// topology is a Cluster of one master, which the test chooses.
type topology struct{ master atomic.Pointer[string] }

func (c *topology) client(t *testing.T, master string) *redis.ClusterClient {
	t.Helper()
	c.master.Store(&master)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: *c.master.Load()}}}}, nil
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// failUntilOpen returns the node whose breaker has opened, by the name that go-redis has for it: releases write
// addresses of this machine in different ways.
func (s *Store) failUntilOpen(t *testing.T, o *openNodes, rule *core.Rule) (node string) {
	t.Helper()
	wait.Until(t, "a breaker is open", func() bool {
		_, _ = takeOne(endsAt{context.Background(), time.Now().Add(store.DefaultTimeout)}, s, "k", rule)
		o.mu.Lock()
		defer o.mu.Unlock()
		for node = range o.nodes {
			return true
		}
		return false
	})
	return node
}

// The breaker of a node that has left a Cluster closes: nobody waits for the node to answer again, and whoever shows
// open breakers would show it for good.
func TestTheBreakerOfANodeThatHasLeftCloses(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	for _, tt := range []struct {
		name          string
		before, after func(*testing.T, *node) // it has left
	}{
		{name: "at once"},
		{name: "after go-redis has closed its client", after: func(t *testing.T, n *node) {
			_ = n.made.Close()
			wait.Until(t, "no probe is due", func() bool { return !n.breaker.IsTaken() })
		}},
		{name: "after nobody has asked for it for long", before: func(t *testing.T, n *node) { n.nobodyAsks(t) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var cluster topology
			s := New(cluster.client(t, nobody), Config{Prefix: redistest.Prefix(t)})
			s.patience.idle = 10 * time.Millisecond
			open, rule := openNodesOf(s), mustRule(core.PerDay(10).Named("left"))
			left := s.failUntilOpen(t, open, &rule)
			known, _ := s.route.(*clusterRoute).nodes.Load(left)
			n, addr := known.(*node), server.Addr()
			wait.Until(t, "a probe is planned", n.breaker.IsTaken)
			if tt.before != nil {
				tt.before(t, n)
			}
			cluster.master.Store(&addr)
			if tt.after != nil {
				tt.after(t, n)
			}
			wait.Until(t, "the breaker is closed", func() bool { return !open.has(left) })
			wait.Until(t, "the node that is there now decides", func() bool {
				_, err := takeOne(t.Context(), s, "k", &rule)
				return err == nil
			})
			for range 2 * breaker.Failures { // of checks that were on their way
				n.fail(&store.Error{Class: store.ClassTimeout}, "k")
			}
			check.Equal(t, "open breakers", s.openBreakers.Load(), 0)
		})
	}
}

// A node that nobody asks for is found to answer again, or the breaker would be shown as open until the next check.
func TestTheBreakerOfANodeThatNobodyAsksForCloses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := New(server.Client(t))
	s.patience.idle = 10 * time.Millisecond
	open, rule := openNodesOf(s), mustRule(core.PerHour(10).Named("probed"))
	server.Kill()
	n := openBreaker(t, s, &rule)
	n.nobodyAsks(t)
	server.Restart(t)
	wait.Until(t, "the breaker is closed", func() bool { return !open.has(n.name) })
}

// The breaker of a Ring's shard that was taken out and put back is that of its new client.
func TestTheBreakerOfAShardThatWasPutBack(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	shards := map[string]string{"only": server.Addr()}
	client := redis.NewRing(&redis.RingOptions{Addrs: shards})
	t.Cleanup(func() { _ = client.Close() })
	s := New(client, Config{Prefix: redistest.Prefix(t)})
	open, rule := openNodesOf(s), mustRule(core.PerDay(10).Named("left"))
	server.Kill()
	s.failUntilOpen(t, open, &rule)
	n := s.route.(*ringRoute).shard(0)
	client.SetAddrs(map[string]string{"another": nobody})
	wait.Until(t, "the client is found to be closed", n.closed.Load)
	server.Restart(t)
	client.SetAddrs(shards)
	wait.Until(t, "the shard decides", func() bool {
		_, err := takeOne(t.Context(), s, "k", &rule)
		return err == nil
	})
	check.Equal(t, "open breakers", s.openBreakers.Load(), 0)
	check.Equal(t, "open by its events", open.has(server.Addr()), false)
}
