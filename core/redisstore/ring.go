package redisstore

// The route through a Ring: shards that know nothing of each other, and keys that are
// spread over them by a consistent hash.

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

// ringRoute leads to the shards of a Ring. A key stays with its shard, up or down. A
// Ring itself would hand the keys of a shard that is down to others, at moments on
// which processes do not agree, and clients would get their quota twice. While a
// shard is down, the outage actions decide for its keys. For the same reason the
// shards are those that the Ring began with, whatever SetAddrs changes.
type ringRoute struct {
	store  *Store
	client *redis.Ring
	names  []string // of the shards, sorted; a shard's slot is its place here
	addrs  []string // of the shards, by slot
	hash   redis.ConsistentHash

	mu    sync.RWMutex
	nodes []*node // by slot; nil until the shard has been seen up. Guarded by mu.
}

func newRingRoute(s *Store, c *redis.Ring) *ringRoute {
	r := &ringRoute{store: s, client: c}
	shards := c.Options().Addrs
	r.names = slices.Sorted(maps.Keys(shards))
	for _, name := range r.names {
		r.addrs = append(r.addrs, shards[name])
	}
	r.hash = c.Options().NewConsistentHash(r.names)
	r.nodes = make([]*node, len(r.names))
	r.findShards()
	return r
}

// findShards finds the clients of the shards that are up. SetAddrs closes the client of an address
// that it leaves out, and makes a new one when the address is back: then the shard's node is made anew.
func (r *ringRoute) findShards() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found sync.Mutex
	byAddr := make(map[string]*redis.Client)
	_ = r.client.ForEachShard(canceled, func(_ context.Context, c *redis.Client) error { // concurrently, and asks no server
		found.Lock()
		defer found.Unlock()
		byAddr[c.Options().Addr] = c
		return nil
	})
	for i, addr := range r.addrs {
		known, c := r.nodes[i], byAddr[addr]
		if c != nil && (known == nil || known.closed.Load() && known.made != c) {
			r.nodes[i] = r.store.newNode(c)
			if known != nil {
				known.leave()
			}
		}
	}
}

func (r *ringRoute) slot(_ string, clientKey []byte) int {
	i, _ := slices.BinarySearch(r.names, r.hash.Get(string(clientKey)))
	return i
}

func (r *ringRoute) node(_ context.Context, j *job) (*node, error) {
	n := r.shard(j.slot)
	if n == nil || n.closed.Load() {
		r.findShards()
		n = r.shard(j.slot)
	}
	if n == nil {
		return nil, &store.Error{Class: store.ClassConnection, Err: errors.New("the Ring's shard is down")}
	}
	return n, nil
}

// shard returns the node of a slot, or nil.
func (r *ringRoute) shard(i int) *node {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if i < len(r.nodes) {
		return r.nodes[i]
	}
	return nil
}

func (r *ringRoute) follow(_ context.Context, from *node, to redirection) (*node, error) {
	return nil, from.explain(to)
}
