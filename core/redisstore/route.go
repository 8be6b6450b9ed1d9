package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// route knows which node decides for which keys.
type route interface {
	// slot returns what keys must share for one call to decide them: the hash
	// slot of a Cluster, the shard of a Ring; on a single server, all do.
	slot(prefix string, tag []byte) int

	// node returns the node of a part's slot.
	node(ctx context.Context, p *part) (*node, error)

	// follow returns the node that a redirection names.
	follow(ctx context.Context, from *node, to redirection) (*node, error)
}

// routeFor returns the route through a client.
func (s *Store) routeFor(client redis.UniversalClient) route {
	switch c := client.(type) {
	case *redis.Client:
		n := s.newNode(c)
		if c.Options().Addr == failoverAddr {
			n.moves = reconnect(c)
		}
		return &singleRoute{n}
	case *redis.ClusterClient:
		return newClusterRoute(s, c)
	case *redis.Ring:
		return newRingRoute(s, c)
	}
	// A client of somebody's own: it may lead anywhere, so each slot is a call.
	return &foreignRoute{singleRoute{&node{store: s, client: client}}}
}

func (s *Store) newNode(c *redis.Client) *node {
	return &node{store: s, client: once(c), name: c.Options().Addr}
}

// once returns a client on the same connections that sends a command once and
// keeps to the deadline of its context: a check that timed out may have been
// charged, and is not sent again.
func once(c *redis.Client) *redis.Client {
	clone := c.WithTimeout(c.Options().ReadTimeout) // with options of its own
	clone.Options().WriteTimeout = c.Options().WriteTimeout
	clone.Options().MaxRetries = 0
	clone.Options().ContextTimeoutEnabled = true
	return clone
}

// failoverAddr is what go-redis calls the server of a client that asks sentinels.
const failoverAddr = "FailoverClient"

// reconnectTimeout is more than go-redis takes to give up a sentinel: by default
// four times three seconds.
const reconnectTimeout = 30 * time.Second

// reconnect returns what has a client connect to the master, in the background
// and with time. A sentinel that hangs is one that go-redis stays with for as long
// as all who ask for the master have less time than it gives the sentinel.
func reconnect(c *redis.Client) func() {
	var busy atomic.Bool
	return func() {
		if !busy.CompareAndSwap(false, true) {
			return
		}
		go func() {
			defer busy.Store(false)
			ctx, cancel := context.WithTimeout(context.Background(), reconnectTimeout)
			defer cancel()
			_ = c.Ping(ctx).Err()
		}()
	}
}

// singleRoute leads to one server, or to whichever Sentinel says is the master.
type singleRoute struct{ only *node }

func (*singleRoute) slot(string, []byte) int { return 0 }

func (r *singleRoute) node(context.Context, *part) (*node, error) { return r.only, nil }

func (r *singleRoute) follow(_ context.Context, from *node, to redirection) (*node, error) {
	return nil, from.explain(to)
}

// foreignRoute leads through a client whose kind is not known.
type foreignRoute struct{ singleRoute }

func (*foreignRoute) slot(prefix string, tag []byte) int { return slotOf(prefix, tag) }
