//go:build moving

package memstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// maxBlockedKeys bounds the list of a Memory's blocks.
const maxBlockedKeys = 1 << 14

// blockedKeys lists the blocks of a memory store, which knows its keys by their
// hashes alone. What is on the list may have ended: the buckets say.
type blockedKeys struct {
	mu   sync.Mutex
	keys map[place]blockedKey // by the penalty's place. Guarded by mu.
}

type blockedKey struct {
	key    string
	rule   *Rule
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
func (b *blockedKeys) snapshot(rules []*Rule) map[place]blockedKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := make(map[place]blockedKey)
	for at, k := range b.keys {
		for _, rule := range rules {
			if rule.id == k.rule.id {
				found[at] = k
				break
			}
		}
	}
	return found
}

var _ Blocker = (*Memory)(nil)

// Blocks implements [Blocker]. A Memory knows its keys by their hashes, and writes
// down those that are blocked, up to 16,384. When there are more, some thousand at
// a time are struck off the list, those that have ended first: they stay blocked,
// and can be lifted by who knows the key.
func (m *Memory) Blocks(ctx context.Context, rules []*Rule) iter.Seq2[Blocked, error] {
	return func(yield func(Blocked, error) bool) {
		for at, k := range m.blocked.snapshot(rules) {
			if err := ctx.Err(); err != nil {
				yield(Blocked{}, err)
				return
			}
			now := m.now()
			p, found := m.penaltyAt(at, k.number, now)
			if !found || p.until <= now {
				continue
			}
			if !yield(Blocked{Limit: k.rule.Name, Key: k.key, Until: time.UnixMicro(p.until), Level: p.level}, nil) {
				return
			}
		}
	}
}

// penaltyAt reads the penalty at a place.
func (m *Memory) penaltyAt(at place, number int, now int64) (penalty, bool) {
	s := &m.shards[number]
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bucket
	_, found := s.get(at, &b)
	if !found || b.expires <= now {
		return penalty{}, false
	}
	return b.unpack(), true
}

// Block implements [Blocker]. It fails only on a check whose rule has no penalty.
func (m *Memory) Block(_ context.Context, checks []Check, d time.Duration) error {
	if err := ValidPenalties(checks); err != nil {
		return err
	}
	if err := ValidBlockTime(d); err != nil {
		return err
	}
	for i := range checks {
		c := &checks[i]
		v := visit{}
		m.locate(&v, c.Rule, c.Key)
		v.shard.mu.Lock()
		now := m.now()
		p, at, index, found := v.penalty(c.Rule, now)
		p.strikes, p.window, p.until = 0, 0, now+d.Microseconds()
		m.savePenalty(&v, c, &p, at, index, found, now)
		v.shard.mu.Unlock()
	}
	return nil
}

// Unblock implements [Blocker]. It fails only on a check whose rule has no penalty.
func (m *Memory) Unblock(_ context.Context, checks []Check) error {
	if err := ValidPenalties(checks); err != nil {
		return err
	}
	for i := range checks {
		v := visit{}
		m.locate(&v, checks[i].Rule, checks[i].Key)
		v.shard.mu.Lock()
		m.forgive(&v, checks[i].Rule)
		v.shard.mu.Unlock()
	}
	return nil
}

// ValidBlockTime reports a time that no block can last: not positive, above 10
// years, or not a whole number of microseconds.
func ValidBlockTime(d time.Duration) error {
	if err := validBlockTime("a block", d); err != nil {
		return fmt.Errorf("weblimit: %w", err)
	}
	return nil
}

// ValidPenalties reports checks that no [Blocker] can block or lift: without a
// rule, or with one that has no penalty.
func ValidPenalties(checks []Check) error {
	for i := range checks {
		switch rule := checks[i].Rule; {
		case rule == nil:
			return errors.New("weblimit: check without a rule")
		case !rule.Penalized():
			return fmt.Errorf("weblimit: limit %q has no Penalty", rule.Name)
		}
	}
	return nil
}
