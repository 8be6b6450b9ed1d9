package memstore

import (
	"hash/maphash"
	"math/bits"

	"github.com/weblimit/weblimit/core/store"
)

// A memory store keeps a mark as a bucket of its own, in the shard of the client's
// key: x is 1, y when the operation was charged, and unit how many repeats have
// passed since.

// markBurst makes a mark half used: it is evicted before buckets with nothing
// left, since to forget it costs the client a second charge, and nobody else
// anything.
const markBurst = 2

// markOf returns the hash of the mark of a check that has the given one.
func (m *Store) markOf(hash uint64, c *store.Check) uint64 {
	return bits.RotateLeft64(hash, 32) + maphash.Bytes(m.seeds[1], c.Once)
}

// markPlace returns where the mark of the check's operation belongs.
func (v *visit) markPlace() place { return place{v.mark, v.check} }

// recall finds out whether the check's operation was charged before and may be
// repeated still. The caller has locked the shard.
func (v *visit) recall(rule *store.Rule, now int64) {
	i, found := v.shard.find(v.markPlace())
	v.repeated = found && v.shard.slots[i].expires > now && v.shard.slots[i].unit < rule.Repeats
}

// remember leaves the mark of an operation that is charged now.
func (v *visit) remember(rule *store.Rule, now int64) {
	b := store.Bucket{Expires: now + rule.Once.Microseconds(), X: 1, Y: now, Form: store.Form{Algorithm: store.MarkRecord, Tick: 1, Rate: 1}}
	i, found := v.shard.find(v.markPlace())
	v.shard.put(v.markPlace(), i, found, &b, markBurst, now)
}

// repeat notes that a repeat has passed.
func (v *visit) repeat() {
	if i, found := v.shard.find(v.markPlace()); found {
		v.shard.slots[i].unit++
	}
}

// unmark removes the mark, if it is that of a charge at the given time.
func (v *visit) unmark(at int64) {
	if i, found := v.shard.find(v.markPlace()); found && v.shard.slots[i].third == at {
		v.shard.remove(i)
	}
}
