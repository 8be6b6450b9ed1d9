package memstore

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// maxBlockedKeys bounds the list of a Store's blocks.
const maxBlockedKeys = 1 << 14

// blockedKeys lists the blocks of a memory store, which knows its keys by their
// hashes alone. What is on the list may have ended: the buckets say.
type blockedKeys struct {
	mu   sync.Mutex
	keys map[place]blockedKey // by the penalty's place. Guarded by mu.
}

type blockedKey struct {
	key    string
	rule   *store.Rule
	number int // of the shard
	until  int64
}

// add is called with the shard locked.
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

// makeRoom drops what has ended and, if that is little, any others up to one
// entry in eight, so that a flood of blocks pays little for each. b.mu is held.
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

// snapshot returns what is on the list for the rules.
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

// Blocks implements [store.Store]. A Store knows its keys by their hashes, and writes
// down those that are blocked, up to 16,384. When there are more, some thousand at
// a time are struck off the list, those that have ended first: they stay blocked,
// and can be lifted by who knows the key.
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

// penaltyAt reads the penalty at a place.
func (m *Store) penaltyAt(at place, number int, now int64) (store.Penalty, bool) {
	s := &m.shards[number]
	s.mu.Lock()
	defer s.mu.Unlock()
	var b store.Bucket
	_, found := s.get(at, &b)
	if !found || b.Expires <= now {
		return store.Penalty{}, false
	}
	return unpack(&b), true
}

// Block implements [store.Store]. It fails only on a check whose rule has no penalty.
func (m *Store) Block(_ context.Context, checks []store.Check, d time.Duration) error {
	if err := store.ValidPenalties(checks); err != nil {
		return err
	}
	if err := store.ValidBlockTime(d); err != nil {
		return err
	}
	for i := range checks {
		c := &checks[i]
		var at location
		m.locate(&at, c.Rule, c.Key)
		at.shard.mu.Lock()
		now := m.now()
		var p store.Penalty
		at.readPenalty(c.Rule, &p)
		p.Open(&c.Rule.Block, now)
		p.Block(&c.Rule.Block, now, d)
		m.savePenalty(&at, c, &p, now)
		at.shard.mu.Unlock()
	}
	return nil
}

// Unblock implements [store.Store]. It fails only on a check whose rule has no penalty.
func (m *Store) Unblock(_ context.Context, checks []store.Check) error {
	if err := store.ValidPenalties(checks); err != nil {
		return err
	}
	for i := range checks {
		var at location
		m.locate(&at, checks[i].Rule, checks[i].Key)
		at.shard.mu.Lock()
		m.forgive(&at, checks[i].Rule)
		at.shard.mu.Unlock()
	}
	return nil
}
