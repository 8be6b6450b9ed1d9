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
func (at *location) markPlace() place { return place{at.mark, at.check} }

// marked returns the mark of the check's operation.
func (at *location) marked() store.Mark {
	i, found := at.shard.find(at.markPlace())
	if !found {
		return store.Mark{}
	}
	slot := &at.shard.slots[i]
	return store.Mark{At: slot.third, Expires: slot.expires, Repeats: slot.unit}
}

// saveMark leaves the mark of an operation that was charged, or removes it.
func (at *location) saveMark(mark store.Mark, now int64) {
	if mark == (store.Mark{}) {
		at.shard.forget(at.markPlace())
		return
	}
	b := store.Bucket{Expires: mark.Expires, X: 1, Y: mark.At, Form: store.Form{Algorithm: store.MarkRecord, Tick: 1, Rate: 1, Unit: mark.Repeats}}
	i, found := at.shard.find(at.markPlace())
	at.shard.put(at.markPlace(), i, found, &b, markBurst, now)
}
