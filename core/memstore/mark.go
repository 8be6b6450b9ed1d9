package memstore

import (
	"hash/maphash"
	"math/bits"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// The mark of an operation is a bucket of its own, in the shard of the client's key. Its
// Y is the time of the charge, and its Unit the number of repeats since.

// A mark counts as half used, so that it is evicted before buckets with nothing left: its
// loss costs the client a second charge and gives nothing away.
const (
	markUsed  = 1
	markBurst = 2
)

// markOf returns the hash of a check's mark, given the hash of its bucket.
func (m *Store) markOf(hash uint64, c *store.Check) uint64 {
	return bits.RotateLeft64(hash, 32) + maphash.Bytes(m.seeds[1], c.Once)
}

// markPlace returns the place of the mark.
func (at *location) markPlace() place { return place{at.mark, at.check} }

// readMark returns the mark, or zero if there is none.
func (at *location) readMark() counting.Mark {
	i, found := at.shard.find(at.markPlace())
	if !found {
		return counting.Mark{}
	}
	slot := &at.shard.slots[i]
	return counting.Mark{At: slot.third, Expires: slot.expires, Repeats: slot.unit}
}

// saveMark stores a mark; zero removes it.
func (at *location) saveMark(mark counting.Mark, now int64) {
	if mark == (counting.Mark{}) {
		at.shard.forget(at.markPlace())
		return
	}
	b := counting.Bucket{Expires: mark.Expires, Y: mark.At, Form: counting.Form{Algorithm: counting.MarkRecord, Tick: 1, Rate: 1, Unit: mark.Repeats}}
	i, found := at.shard.find(at.markPlace())
	at.shard.put(at.markPlace(), i, found, &b, markBurst, now)
}
