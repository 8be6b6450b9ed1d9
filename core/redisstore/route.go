package redisstore

// Routes: which node decides for which keys, by the kind of client. This file has the
// single server and Sentinel; see cluster.go and ring.go for the others.

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// route knows which node decides for which keys. All methods may be called
// concurrently.
type route interface {
	// slot returns what keys must share so that one call of the script can decide them:
	// the hash slot of a Cluster, the shard of a Ring. On a single server, all keys share
	// slot 0.
	slot(prefix string, clientKey []byte) int

	// node returns the node of a sealed job.
	node(ctx context.Context, j *job) (*node, error)

	// follow returns the node that a redirection names.
	follow(ctx context.Context, from *node, to redirection) (*node, error)
}

// routeFor returns the route through a client.
func (s *Store) routeFor(client redis.UniversalClient) route {
	switch c := client.(type) {
	case *redis.Client:
		n := s.newNode(c)
		if c.Options().Addr == failoverAddr {
			n.onFailure = reconnect(c)
		}
		return &singleRoute{n}
	case *redis.ClusterClient:
		return newClusterRoute(s, c)
	case *redis.Ring:
		return newRingRoute(s, c)
	}
	return &unknownRoute{singleRoute{&node{store: s, client: client, ownTimeouts: true}}}
}

func (s *Store) newNode(c *redis.Client) *node {
	return &node{store: s, made: c, client: observed(c, withoutRetries(c)), name: c.Options().Addr}
}

// inPlaceOf returns the node to ask for a job in place of one whose client is closed, or nil. A Cluster's
// or Ring's client closes the client of a server that has left, and makes another one if the server comes back.
func (s *Store) inPlaceOf(ctx context.Context, n *node, j *job) *node {
	n.closed.Store(true)
	if other, err := s.route.node(ctx, j); err == nil && other != n {
		return other
	}
	return nil
}

// longestIO stands for the client's ReadTimeout and WriteTimeout. go-redis ends a read or
// write by these or by its context's deadline, whichever is first, and by neither if they
// are switched off. A check is to have its context's deadline, so this is longer than a
// check takes. It still ends what go-redis does without a context, such as logging in again.
const longestIO = time.Minute

// withoutRetries returns a client on the same connections that sends a command once
// and keeps to the deadline of its context. A check that timed out may have been
// charged, and must not be sent again.
func withoutRetries(c *redis.Client) *redis.Client {
	clone := c.WithTimeout(longestIO) // which copies the options
	clone.Options().MaxRetries = 0
	clone.Options().ContextTimeoutEnabled = true
	return clone
}

// failoverAddr is what go-redis calls the server of a client that asks sentinels.
const failoverAddr = "FailoverClient"

// reconnectTimeout is more than go-redis takes to give up a sentinel: by default
// four times three seconds.
const reconnectTimeout = 30 * time.Second

// reconnect returns a function that has a Sentinel client connect to the master, in
// the background and with time. go-redis stays with a sentinel that hangs as long as
// all who ask it for the master have less time than go-redis gives the sentinel. At
// most one goroutine runs per client.
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

// singleRoute leads to one server, or to the one that Sentinel says is the master.
type singleRoute struct{ only *node }

func (*singleRoute) slot(string, []byte) int { return 0 }

func (r *singleRoute) node(context.Context, *job) (*node, error) { return r.only, nil }

func (r *singleRoute) follow(_ context.Context, from *node, to redirection) (*node, error) {
	return nil, from.explain(to)
}

// unknownRoute leads through a client of another kind. That may be a Cluster's, so
// each hash slot is a call of its own.
type unknownRoute struct{ singleRoute }

func (*unknownRoute) slot(prefix string, clientKey []byte) int { return hashSlot(prefix, clientKey) }
