package memstore

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// location says where a check's records are: its bucket, its penalty and its mark.
type location struct {
	place         // of the bucket
	shard  *shard // of all records
	number int    // of the shard
	index  int    // of the bucket, as find returned it
	found  bool   // as find returned it
	mark   uint64 // hash of the mark, if the check has Once
}

// spacing keeps the limits of one key apart in their shard: as neighbours they would
// lengthen every search.
const spacing = 0x9e3779b97f4a7c15

// locate hashes a key. All limits of a key are in one shard.
func (m *Store) locate(at *location, rule *store.Rule, key []byte) {
	at.hash = maphash.Bytes(m.seeds[0], key) + rule.ID()*spacing
	at.check = uint32(maphash.Bytes(m.seeds[1], key))
	m.setShard(at)
}

// setShard finds the shard of a location by its place.
func (m *Store) setShard(at *location) {
	at.number = int(at.check) & (len(m.shards) - 1)
	at.shard = &m.shards[at.number]
}

// sameKey is locate for the key of other under another rule. The limits of a key need
// only one hash, which takes some 10 ns for a short key.
func (at *location) sameKey(other *location, rule, otherRule *store.Rule) {
	at.hash = other.hash + rule.ID()*spacing - otherRule.ID()*spacing
	at.check, at.number, at.shard = other.check, other.number, other.shard
}

// put stores the bucket, or removes it if it is unused. It returns what shard.put does.
func (at *location) put(b *counting.Bucket, rule *store.Rule, now int64) (moved bool) {
	if !b.Unused() {
		return at.shard.put(at.place, at.index, at.found, b, rule.Whole, now)
	}
	if at.found {
		at.shard.remove(at.index)
	}
	return at.found
}

// call is the working memory of a call with several checks: all states are read before
// any is changed. Calls are reused.
type call struct {
	at     []location // of each check, and then those of shares: see locateShare
	states []counting.State
	shares []counting.Sharing // of the checks with Share

	oneShard bool // all checks are in one shard, as those of one key always are
}

var calls = sync.Pool{New: func() any { return new(call) }}

// enter locates the checks' records, locks their shards and reads their states. It
// returns the time at which the call decides.
func (m *Store) enter(c *call, checks []store.Check) (now int64) {
	c.at = slices.Grow(c.at[:0], len(checks))[:len(checks)]
	c.states = slices.Grow(c.states[:0], len(checks))[:len(checks)]
	c.oneShard = true
	for i := range checks {
		at, check := &c.at[i], &checks[i]
		if i > 0 && bytes.Equal(check.Key, checks[i-1].Key) {
			at.sameKey(&c.at[i-1], check.Rule, checks[i-1].Rule)
		} else {
			m.locate(at, check.Rule, check.Key)
			c.oneShard = c.oneShard && at.shard == c.at[0].shard
		}
		if check.Once != nil {
			at.mark = m.markOf(at.hash, check)
		}
	}
	for i := range checks {
		if checks[i].Share != nil {
			c.at, c.oneShard = m.locateShare(c.at, &c.at[i], checks[i].Share), false
		}
	}
	now = m.now()
	if c.oneShard {
		c.at[0].shard.mu.Lock()
		now = m.time(c.at[0].shard, now)
	} else {
		m.lockAll(c.at)
		now = m.timeOfAll(c.at, now)
	}
	shares := c.at[len(checks):]
	for i := range checks {
		at, s := &c.at[i], &c.states[i]
		at.index, at.found = at.shard.get(at.place, &s.Bucket)
		if checks[i].Once != nil {
			s.Mark = at.readMark()
		}
		at.readManual(&s.Manual)
		if checks[i].Rule.Penalized() {
			at.readPenalty(checks[i].Rule, &s.Penalty)
		}
		if s.Sharing = nil; checks[i].Share != nil {
			s.Sharing = c.sharing(i, len(checks))
			readShare(at, shares, checks[i].Share, s.Sharing)
			shares = shares[atShares:]
		}
	}
	return now
}

// sharing returns room for the share of check i.
func (c *call) sharing(i, checks int) *counting.Sharing {
	if len(c.shares) < checks {
		c.shares = make([]counting.Sharing, checks)
	}
	return &c.shares[i]
}

// timeOfAll is time for several shards, all of them locked.
func (m *Store) timeOfAll(at []location, now int64) int64 {
	for i := range at {
		now = m.time(at[i].shard, now)
	}
	for i := range at {
		at[i].shard.latest = now
	}
	return now
}

// lockAll locks the shards, each once and in the order of their numbers, so that two calls
// never wait for each other.
func (m *Store) lockAll(at []location) {
	for last := -1; ; {
		next := len(m.shards)
		for i := range at {
			if n := at[i].number; n > last && n < next {
				next = n
			}
		}
		if next == len(m.shards) {
			return
		}
		m.shards[next].mu.Lock()
		last = next
	}
}

// leave stores what has changed, unlocks the shards, and drops its references to logs.
func (m *Store) leave(c *call, checks []store.Check, now int64) {
	shares := c.at[len(checks):]
	moved := false // storing one record may move the others
	for i := range checks {
		at, s := &c.at[i], &c.states[i]
		if s.BucketChanged {
			if moved {
				at.index, at.found = at.shard.find(at.place)
			}
			moved = at.put(&s.Bucket, checks[i].Rule, now) || moved
		}
		if s.ManualChanged {
			m.saveManual(at, &checks[i], &s.Manual, now)
			moved = true
		}
		if s.PenaltyChanged {
			m.savePenalty(at, &checks[i], &s.Penalty, now)
			moved = true
		}
		if s.MarkChanged {
			at.saveMark(s.Mark, now)
			moved = true
		}
		if s.Sharing != nil {
			saveShare(at, shares, s.Sharing, now)
			shares = shares[atShares:]
			s.Sharing, moved = nil, true
		}
		if s.Bucket.Log != nil {
			s.Bucket.Log = nil
		}
	}
	if c.oneShard {
		c.at[0].shard.mu.Unlock()
	} else {
		unlockAll(c.at)
	}
}

// unlockAll unlocks what lockAll locked.
func unlockAll(at []location) {
	for i := range at {
		seen := false
		for j := range at[:i] {
			seen = seen || at[j].number == at[i].number
		}
		if !seen {
			at[i].shard.mu.Unlock()
		}
	}
}
