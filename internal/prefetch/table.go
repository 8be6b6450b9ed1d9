package prefetch

import (
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
)

const (
	tableSets = 128
	tableWays = 8
)

// table holds the entries, up to 1,024 of them. Readers need no lock.
type table struct {
	mu   sync.Mutex // of who changes which entries there are
	ways [tableSets][tableWays]atomic.Pointer[entry]
}

func (t *table) set(hash uint64) *[tableWays]atomic.Pointer[entry] {
	return &t.ways[hash%tableSets]
}

// find returns the entry of a check, or nil.
func (t *table) find(hash uint64, c *store.Check) *entry {
	set := t.set(hash)
	for i := range set {
		if e := set[i].Load(); e != nil && e.is(hash, c) {
			return e
		}
	}
	return nil
}

// put adds an entry, if there is room and it is not there yet. One that is in use
// is not pushed out.
func (t *table) put(e *entry, now, maxAge int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := t.set(e.hash)
	free := -1
	for i := range set {
		switch old := set[i].Load(); {
		case old == nil, old.idle(now, maxAge):
			free = i
		case old.hash == e.hash && old.rule == e.rule && string(old.key) == string(e.key):
			return
		}
	}
	if free < 0 {
		return
	}
	if old := set[free].Swap(e); old != nil {
		old.retire()
	}
}

// remove takes an entry out.
func (t *table) remove(e *entry) {
	e.retire()
	set := t.set(e.hash)
	for i := range set {
		set[i].CompareAndSwap(e, nil)
	}
}
