package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

// ringRoute leads to the shards of a Ring. A key stays with its shard, up or
// down: a Ring would hand the keys of a shard that is down to others, at moments
// on which processes do not agree, and clients would get their quota twice.
// While a shard is down, the outage policies decide for its keys. For the same
// reason the shards are those that the Ring began with, whatever SetAddrs says.
type ringRoute struct {
	store  *Store
	client *redis.Ring
	names  []string // of the shards, in order
	hash   redis.ConsistentHash

	mu    sync.RWMutex
	nodes []*node // by shard; nil until it has been seen up. Guarded by mu.
}

func newRingRoute(s *Store, c *redis.Ring) *ringRoute {
	r := &ringRoute{store: s, client: c}
	for name := range c.Options().Addrs {
		r.names = append(r.names, name)
	}
	slices.Sort(r.names)
	r.hash = c.Options().NewConsistentHash(r.names)
	r.nodes = make([]*node, len(r.names))
	c.OnNewNode(r.renew)
	r.look()
	return r
}

// look finds the shards' clients, of those that are up.
func (r *ringRoute) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found sync.Mutex
	byAddr := make(map[string]*redis.Client)
	_ = r.client.ForEachShard(ended, func(_ context.Context, c *redis.Client) error { // asks nobody
		found.Lock()
		defer found.Unlock()
		byAddr[c.Options().Addr] = c
		return nil
	})
	for i, name := range r.names {
		if c := byAddr[r.client.Options().Addrs[name]]; c != nil && r.nodes[i] == nil {
			r.nodes[i] = r.store.newNode(c)
		}
	}
}

// renew takes another client for a shard: SetAddrs closes that of an address that
// it leaves out, and makes a new one when the address is back.
func (r *ringRoute) renew(c *redis.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, name := range r.names {
		if r.client.Options().Addrs[name] == c.Options().Addr {
			r.nodes[i] = r.store.newNode(c)
		}
	}
}

func (r *ringRoute) slot(_ string, tag []byte) int {
	i, _ := slices.BinarySearch(r.names, r.hash.Get(string(tag)))
	return i
}

func (r *ringRoute) node(_ context.Context, p *part) (*node, error) {
	if n := r.at(p.slot); n != nil {
		return n, nil
	}
	r.look()
	if n := r.at(p.slot); n != nil {
		return n, nil
	}
	return nil, &store.Error{Class: store.ClassConnection, Err: errors.New("the Ring's shard is down")}
}

func (r *ringRoute) at(i int) *node {
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
