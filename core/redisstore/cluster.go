package redisstore

// The route through a Redis Cluster. go-redis keeps the map of slots; the store asks
// it which master has a slot, and never lets it wait, retry or redirect.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

// clusterRoute leads to the masters of a Cluster.
type clusterRoute struct {
	store  *Store
	client *redis.ClusterClient

	nodes sync.Map // from address to *node

	attempts chan struct{} // holds one element per attempt to load the map
	attempt  atomic.Int64  // when the last attempt began, on the monotonic clock

	failed atomic.Pointer[store.Error] // why the last attempt has failed; nil if it has not

	mu     sync.Mutex
	loaded chan struct{} // closed when there is a map; nil unless checks wait for one. Guarded by mu.
}

const (
	// loadTimeout is how long an attempt to load the map of slots may take.
	loadTimeout = 2 * time.Second

	// loadEvery is the time between two attempts. An attempt can take seconds: go-redis
	// asks the nodes one after the other, with its own time-outs, and some may be frozen
	// or cut off. Another attempt begins with other nodes.
	loadEvery = 200 * time.Millisecond

	// maxAttemptsToLoad bounds the attempts under way, each of which is a goroutine.
	maxAttemptsToLoad = 4
)

// canceled is a context with which go-redis says what it knows, and asks no server.
var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func newClusterRoute(s *Store, c *redis.ClusterClient) *clusterRoute {
	return &clusterRoute{store: s, client: c, attempts: make(chan struct{}, maxAttemptsToLoad)}
}

// learn returns the node of a client, which it makes if it is not known yet. If two
// goroutines make it at once, the last one stays known, and the other one serves only the
// jobs that it was made for. go-redis makes another client if a node of the same address comes back.
func (r *clusterRoute) learn(c *redis.Client) *node {
	addr := c.Options().Addr
	if known, ok := r.nodes.Load(addr); ok && known.(*node).made == c {
		return known.(*node)
	}
	n := r.store.newNode(c)
	n.onFailure = r.reload
	if before, replaced := r.nodes.Swap(addr, n); replaced {
		before.(*node).leave()
	}
	return n
}

// forget forgets the nodes that are not present: they have left the Cluster.
func (r *clusterRoute) forget(present map[*redis.Client]bool) {
	for addr, known := range r.nodes.Range {
		if n := known.(*node); !present[n.made] && r.nodes.CompareAndDelete(addr, n) {
			n.leave()
		}
	}
}

// reload has go-redis load the map again, in the background, unless an attempt has just
// begun, and learns all nodes. It is called after each redirection and each failure of a node.
func (r *clusterRoute) reload() {
	now, last := monotonic(), r.attempt.Load()
	if last != 0 && now-last < int64(loadEvery) || !r.attempt.CompareAndSwap(last, now) {
		return
	}
	select {
	case r.attempts <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-r.attempts }()
		ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
		defer cancel()
		r.failed.Store(mapError(r.load(ctx)))
	}()
}

// load has go-redis load the map, and learns the nodes that are in it, and no others.
func (r *clusterRoute) load(ctx context.Context) error {
	var found sync.Mutex
	present := make(map[*redis.Client]bool)
	err := r.client.ForEachShard(ctx, func(_ context.Context, c *redis.Client) error { // concurrently, after it has loaded the map
		r.learn(c)
		found.Lock()
		defer found.Unlock()
		present[c] = true
		return nil
	})
	if err == nil {
		r.forget(present)
	}
	return err
}

// mapError says why the map of slots could not be loaded, or returns nil.
func mapError(err error) *store.Error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "cluster support disabled") {
		return &store.Error{Class: store.ClassUnsupported, Err: fmt.Errorf(
			"the client is a redis.ClusterClient, and the server is no Cluster: use redis.NewClient, or redis.NewUniversalClient without IsClusterMode (%w)", err)}
	}
	return &store.Error{Class: classOf(err), Err: fmt.Errorf("loading the map of the Cluster's slots: %w", keyless(err))}
}

func (r *clusterRoute) slot(prefix string, clientKey []byte) int { return hashSlot(prefix, clientKey) }

// node asks go-redis, which knows the master of each slot once the map is loaded.
func (r *clusterRoute) node(ctx context.Context, j *job) (*node, error) {
	key := string(j.Key(0))
	c, err := r.client.MasterForKey(canceled, key)
	if err != nil {
		if err = r.waitForMap(ctx); err == nil {
			c, err = r.client.MasterForKey(canceled, key)
		}
	}
	if known := (*store.Error)(nil); errors.As(err, &known) {
		return nil, known
	}
	if err != nil {
		return nil, &store.Error{Class: classOf(err), Err: keyless(err)}
	}
	return r.learn(c), nil
}

// waitForMap waits until the map of slots is loaded, but no longer than the context, and not where the
// servers refuse it: that has to be mended first. One goroutine loads it for all that wait.
func (r *clusterRoute) waitForMap(ctx context.Context) error {
	if failed := r.failed.Load(); failed != nil && isRefusal(failed) {
		r.reload()
		return failed
	}
	r.mu.Lock()
	loaded := r.loaded
	if loaded == nil {
		loaded = make(chan struct{})
		r.loaded = loaded
		go r.loadMap(loaded)
	}
	r.mu.Unlock()
	select {
	case <-loaded:
		if failed := r.failed.Load(); failed != nil && isRefusal(failed) {
			return failed
		}
		return nil
	case <-ctx.Done():
		if failed := r.failed.Load(); failed != nil {
			return failed
		}
		return errors.Join(errors.New("the map of the Cluster's slots is not loaded yet"), ctx.Err())
	}
}

// loadMap starts attempts to load the map until there is one, and then wakes all that
// wait. It gives up after a while; the next check starts it again.
func (r *clusterRoute) loadMap(loaded chan struct{}) {
	for end := time.Now().Add(r.store.patience.slots); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		r.reload()
		if _, err := r.client.MasterForKey(canceled, "any"); err == nil {
			break
		}
		if failed := r.failed.Load(); failed != nil && isRefusal(failed) {
			break
		}
	}
	r.mu.Lock()
	r.loaded = nil
	r.mu.Unlock()
	close(loaded)
}

// follow returns the node of the redirection. A node that is not known yet is known
// when the map has been loaded again.
func (r *clusterRoute) follow(ctx context.Context, from *node, to redirection) (*node, error) {
	if !to.ask {
		r.reload()
	}
	to = to.from(from)
	for {
		if n, ok := r.nodes.Load(to.addr); ok && !n.(*node).closed.Load() {
			return n.(*node), nil
		}
		r.reload()
		if !pause(ctx, 5*time.Millisecond) {
			return nil, from.explain(to)
		}
	}
}
