package memstore

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// maxBlockedKeys bounds the list of a store's blocks.
const maxBlockedKeys = 1 << 14

// blockedKeys lists the keys that are blocked, since the table knows hashes only. A block
// on the list may have ended: the penalty in the table says so.
type blockedKeys struct {
	mu   sync.Mutex
	keys map[place]blockedKey // by the place of the penalty. Guarded by mu.
}

type blockedKey struct {
	key    string
	rule   *store.Rule
	number int // of the shard
	until  int64
}

// add puts a key on the list. The caller holds the lock of the key's shard.
func (b *blockedKeys) add(at place, k blockedKey, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == nil {
		b.keys = make(map[place]blockedKey)
	}
	if _, known := b.keys[at]; !known && len(b.keys) >= maxBlockedKeys {
		b.makeRoom(now)
	}
	b.keys[at] = k
}

// makeRoom drops the blocks that have ended. If that leaves more than 7/8 of the bound,
// it drops any others, so that a flood of blocks seldom pays for it. The caller holds
// b.mu.
func (b *blockedKeys) makeRoom(now int64) {
	for at, k := range b.keys {
		if k.until <= now {
			delete(b.keys, at)
		}
	}
	for at := range b.keys {
		if len(b.keys) <= maxBlockedKeys/8*7 {
			break
		}
		delete(b.keys, at)
	}
}

func (b *blockedKeys) remove(at place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.keys, at)
}

// snapshot returns the listed blocks of the rules.
func (b *blockedKeys) snapshot(rules []*store.Rule) map[place]blockedKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := make(map[place]blockedKey)
	for at, k := range b.keys {
		for _, rule := range rules {
			if rule.ID() == k.rule.ID() {
				found[at] = k
				break
			}
		}
	}
	return found
}

// Blocks implements [store.Store]. It lists up to 16,384 blocked keys. When there are
// more, some two thousand at a time are dropped from the list, those that have ended
// first. They stay blocked; whoever knows the key can still unblock it. It is safe for
// concurrent use, and holds no lock while it yields.
func (m *Store) Blocks(ctx context.Context, rules []*store.Rule) iter.Seq2[store.Blocked, error] {
	return func(yield func(store.Blocked, error) bool) {
		for at, k := range m.blocked.snapshot(rules) {
			if err := ctx.Err(); err != nil {
				yield(store.Blocked{}, err)
				return
			}
			now := m.now()
			p, found := m.penaltyAt(at, k.number, now)
			if !found || p.Until <= now {
				continue
			}
			if !yield(store.Blocked{Limit: k.rule.Name, Key: k.key, Until: time.UnixMicro(p.Until), Level: p.Level}, nil) {
				return
			}
		}
	}
}

// penaltyAt reads the penalty at a place of a shard.
func (m *Store) penaltyAt(at place, number int, now int64) (counting.Penalty, bool) {
	s := &m.shards[number]
	s.mu.Lock()
	defer s.mu.Unlock()
	var b counting.Bucket
	_, found := s.get(at, &b)
	if !found || b.Expires <= now {
		return counting.Penalty{}, false
	}
	return unpack(&b), true
}

// Block implements [store.Store]. Its only errors are those of [counting.ValidKeys] and
// [store.ValidBlockTime].
func (m *Store) Block(_ context.Context, checks []store.Check, d time.Duration) error {
	if err := counting.ValidKeys(checks); err != nil {
		return err
	}
	if err := store.ValidBlockTime(d); err != nil {
		return err
	}
	m.update(checks, func(now int64, states []counting.State) { counting.BlockKeys(now, checks, states, d) })
	return nil
}

// Unblock implements [store.Store]. Its only errors are those of [counting.ValidKeys].
func (m *Store) Unblock(_ context.Context, checks []store.Check) error {
	if err := counting.ValidKeys(checks); err != nil {
		return err
	}
	m.update(checks, func(_ int64, states []counting.State) { counting.UnblockKeys(checks, states) })
	return nil
}
