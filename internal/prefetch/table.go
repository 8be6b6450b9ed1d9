package prefetch

// The hot keys of a process, found by hash. Only these have slices.

import (
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
)

const (
	tableSets = 128
	tableWays = 8
)

// table holds up to 1,024 hot keys: each hash has a set of tableWays places.
// Readers need no lock, and each request is one.
type table struct {
	mu   sync.Mutex // held while a hot key is added
	ways [tableSets][tableWays]atomic.Pointer[hotKey]
}

// set returns the places of a hash.
func (t *table) set(hash uint64) *[tableWays]atomic.Pointer[hotKey] {
	return &t.ways[hash%tableSets]
}

// find returns the hot key of a check, or nil.
func (t *table) find(hash uint64, c *store.Check) *hotKey {
	set := t.set(hash)
	for i := range set {
		if k := set[i].Load(); k != nil && k.isOfRule(hash, c) {
			return k
		}
	}
	return nil
}

// put adds a hot key, if there is room and it is not there yet. It displaces idle
// keys only.
func (t *table) put(k *hotKey, now, maxAge int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := t.set(k.hash)
	free := -1
	for i := range set {
		switch old := set[i].Load(); {
		case old == nil, old.idle(now, maxAge):
			free = i
		case old.hash == k.hash && old.rule == k.rule && string(old.key) == string(k.key):
			return
		}
	}
	if free < 0 {
		return
	}
	if old := set[free].Swap(k); old != nil {
		old.retire()
	}
}

// remove takes a hot key out.
func (t *table) remove(k *hotKey) {
	k.retire()
	set := t.set(k.hash)
	for i := range set {
		set[i].CompareAndSwap(k, nil)
	}
}
