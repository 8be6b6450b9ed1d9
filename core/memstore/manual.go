package memstore

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// A block by hand is a bucket of its own, in the shard of the limit's bucket, as a penalty is: X says since
// when it is in force. shard.manual spares those who are in a shard without one the search.

// ofManual returns the place of the block by hand that belongs to the bucket at p.
func (p place) ofManual() place {
	const apart = 0xd6e8feb86659fd93 // no limit of the key is as far away
	p.hash += apart
	return p
}

// isBlocked reports whether there is a block by hand.
func (at *location) isBlocked(now int64) bool {
	i, found := at.shard.find(at.ofManual())
	return found && at.shard.slots[i].expires > now
}

// readManual reads the block by hand. One that is not there reads as zero.
func (at *location) readManual(b *counting.ManualBlock) {
	*b = counting.ManualBlock{}
	if !at.shard.manual { // the usual case
		return
	}
	if i, found := at.shard.find(at.ofManual()); found {
		slot := &at.shard.slots[i]
		*b = counting.ManualBlock{Since: slot.x, Until: slot.expires}
	}
}

// saveManual stores a block by hand, which the list of blocks has, too; zero removes it.
func (m *Store) saveManual(at *location, c *store.Check, b *counting.ManualBlock, now int64) {
	place := at.ofManual()
	if *b == (counting.ManualBlock{}) {
		if at.shard.manual {
			at.shard.forget(place)
			m.blocked.remove(place)
		}
		return
	}
	bucket := counting.Bucket{Expires: b.Until, X: b.Since, Y: b.Until, Form: counting.Form{Algorithm: counting.ManualRecord, Tick: 1, Rate: 1}}
	index, found := at.shard.find(place)
	at.shard.put(place, index, found, &bucket, 1, now)
	at.shard.manual = true
	m.blocked.add(place, blockedKey{string(c.Key), c.Rule, at.number, b.Until}, now)
}
