package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

// clusterRoute leads to the masters of a Cluster. go-redis keeps the map of its
// slots; what it would do on top, retries and time-outs of its own, is not
// wanted: see once.
type clusterRoute struct {
	store  *Store
	client *redis.ClusterClient

	nodes sync.Map // of addresses to *clusterNode
	asks  atomic.Pointer[loading]

	loads  chan struct{} // holds one element per attempt to load the map
	loaded atomic.Int64  // when the last attempt began, on the monotonic clock
}

// clusterNode is a node with the client that it was made of: go-redis makes
// another one if a node of the same address comes back.
type clusterNode struct {
	*node
	of *redis.Client
}

// loading is a request for the map of slots that several checks wait for.
type loading struct{ done chan struct{} }

const (
	// loadTimeout is how long checks wait for the map of slots at most.
	loadTimeout = 2 * time.Second

	// loadEvery is the time between two attempts to load it. go-redis asks the
	// nodes one after the other, and one that is frozen or cut off costs it its
	// own time-outs, which are seconds: further attempts ask others first.
	loadEvery = 200 * time.Millisecond

	// maxLoads bounds the attempts under way.
	maxLoads = 4
)

// ended is a context with which go-redis tells what it knows and asks nobody.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func newClusterRoute(s *Store, c *redis.ClusterClient) *clusterRoute {
	r := &clusterRoute{store: s, client: c, loads: make(chan struct{}, maxLoads)}
	c.OnNewNode(func(c *redis.Client) { r.learn(c) })
	_ = c.ForEachShard(ended, func(_ context.Context, c *redis.Client) error { // those known already, if any
		r.learn(c)
		return nil
	})
	return r
}

func (r *clusterRoute) learn(c *redis.Client) *node {
	addr := c.Options().Addr
	if known, ok := r.nodes.Load(addr); ok && known.(*clusterNode).of == c {
		return known.(*clusterNode).node
	}
	n := &clusterNode{r.store.newNode(c), c}
	n.moves = r.reload
	r.nodes.Store(addr, n)
	return n.node
}

// reload has go-redis load the map again, in the background.
func (r *clusterRoute) reload() {
	now, last := monotonic(), r.loaded.Load()
	if last != 0 && now-last < int64(loadEvery) || !r.loaded.CompareAndSwap(last, now) {
		return
	}
	select {
	case r.loads <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-r.loads }()
		ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
		defer cancel()
		_ = r.client.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil }) // begins with it
	}()
}

func (r *clusterRoute) slot(prefix string, tag []byte) int { return slotOf(prefix, tag) }

func (r *clusterRoute) node(ctx context.Context, p *part) (*node, error) {
	key := string(p.Key(0))
	c, err := r.client.MasterForKey(ended, key)
	if err != nil {
		if err = r.load(ctx); err == nil {
			c, err = r.client.MasterForKey(ended, key)
		}
	}
	if err != nil {
		return nil, &store.Error{Class: classOf(err), Err: keyless(err)}
	}
	return r.learn(c), nil
}

// load waits until the map of slots is loaded, but no longer than the context.
// One goroutine asks for all who wait.
func (r *clusterRoute) load(ctx context.Context) error {
	mine := &loading{make(chan struct{})}
	l := mine
	for !r.asks.CompareAndSwap(nil, mine) {
		if l = r.asks.Load(); l != nil {
			break
		}
		l = mine
	}
	if l == mine {
		go func() {
			for end := time.Now().Add(loadTimeout); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				r.reload()
				if _, err := r.client.MasterForKey(ended, "any"); err == nil {
					break
				}
			}
			r.asks.Store(nil)
			close(mine.done)
		}()
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("the map of the Cluster's slots is not loaded yet"), ctx.Err())
	}
}

// follow leads to the node of the redirection. One that is not known yet is known
// when the map has been loaded.
func (r *clusterRoute) follow(ctx context.Context, from *node, to redirection) (*node, error) {
	if !to.ask {
		r.reload()
	}
	to = to.from(from)
	for {
		if n, ok := r.nodes.Load(to.addr); ok {
			return n.(*clusterNode).node, nil
		}
		r.reload()
		if !pause(ctx, 5*time.Millisecond) {
			return nil, from.explain(to)
		}
	}
}

// pause waits, and reports false if the context ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
