package memstore

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

// location is where the records of a check are.
type location struct {
	place         // of the bucket
	shard  *shard // of all of them
	number int    // of the shard
	mark   uint64 // the hash of the mark of the check's operation, if it has one
}

// spacing keeps the limits of one key apart in their shard.
const spacing = 0x9e3779b97f4a7c15

// locate finds where a check's bucket belongs. The limits of one key share a
// shard, but lie some way apart in it, or they would be each other's neighbours
// in every probe.
func (m *Store) locate(at *location, rule *store.Rule, key []byte) {
	at.hash = maphash.Bytes(m.seeds[0], key) + uint64(rule.ID())*spacing
	at.check = uint32(maphash.Bytes(m.seeds[1], key))
	at.number = int(at.check) & (len(m.shards) - 1)
	at.shard = &m.shards[at.number]
}

// locateWithMark is locate for a check that may have a mark, too.
func (m *Store) locateWithMark(at *location, c *store.Check) {
	m.locate(at, c.Rule, c.Key)
	if c.Once != nil {
		at.mark = m.markOf(at.hash, c)
	}
}

// put stores a bucket where get has looked for it, or nothing if it is worth nothing.
func (at *location) put(index int, found bool, b *store.Bucket, rule *store.Rule, now int64) {
	if !b.Unused() {
		at.shard.put(at.place, index, found, b, rule.Whole, now)
	} else if found {
		at.shard.remove(index)
	}
}

// call is the working memory of a call: a call has to look at all states before it
// may change any of them.
type call struct {
	at     []location
	states []store.State
}

var calls = sync.Pool{New: func() any { return new(call) }}

// enter finds the checks' records, locks their shards, each once and in the order of
// their numbers, so that no two calls wait for each other, and reads them.
func (m *Store) enter(c *call, checks []store.Check) {
	c.at = slices.Grow(c.at[:0], len(checks))[:len(checks)]
	c.states = slices.Grow(c.states[:0], len(checks))[:len(checks)]
	for i := range checks {
		m.locateWithMark(&c.at[i], &checks[i])
		c.states[i].Reuse()
	}
	if len(checks) == 1 {
		c.at[0].shard.mu.Lock()
	} else {
		m.lockAll(c.at)
	}
	for i := range checks {
		at, s := &c.at[i], &c.states[i]
		at.shard.get(at.place, &s.Bucket)
		if checks[i].Once != nil {
			s.Mark = at.marked()
		}
		if checks[i].Rule.Penalized() {
			s.Penalty = at.penalty(checks[i].Rule)
		}
	}
}

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

// leave stores what has changed, unlocks what enter locked, and lets go of the logs.
func (m *Store) leave(c *call, checks []store.Check, now int64) {
	for i := range checks {
		at, s := &c.at[i], &c.states[i]
		if s.BucketChanged {
			index, found := at.shard.find(at.place) // the others of the call may have moved it
			at.put(index, found, &s.Bucket, checks[i].Rule, now)
		}
		if s.PenaltyChanged {
			m.savePenalty(at, &checks[i], &s.Penalty, now)
		}
		if s.MarkChanged {
			at.saveMark(s.Mark, now)
		}
	}
	for i := range c.at {
		seen := false
		for j := range c.at[:i] {
			seen = seen || c.at[j].number == c.at[i].number
		}
		if !seen {
			c.at[i].shard.mu.Unlock()
		}
		if b := &c.states[i].Bucket; b.Log != nil {
			b.Log = nil
		}
	}
}
