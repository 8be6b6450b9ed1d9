package memstore

import (
	"math"

	"github.com/weblimit/weblimit/core/store"
)

// Penalties in memory: a bucket of their own in the shard of the limit's, so that
// one lock is enough for both.

// pack makes a bucket of a penalty: Expires, X when the strikes end to
// count, Y when the block ends, and of the form the unit, the level and the
// strikes.
func pack(p *store.Penalty) store.Bucket {
	return store.Bucket{
		Expires: p.Expires, X: p.Window, Y: p.Until,
		Form: store.Form{Algorithm: store.PenaltyRecord, Tick: 1, Rate: 1, Unit: p.Level<<32 | p.Strikes},
	}
}

// unpack is the reverse.
func unpack(b *store.Bucket) store.Penalty {
	return store.Penalty{Strikes: b.Form.Unit & math.MaxUint32, Level: b.Form.Unit >> 32, Window: b.X, Until: b.Y, Expires: b.Expires}
}

// ofPenalty returns where the penalty of a bucket is.
func (p place) ofPenalty(rule *store.Rule) place {
	p.hash += uint64(rule.PenaltyID())*spacing - uint64(rule.ID())*spacing
	return p
}

// readPenalty reads the penalty of the location's key; one that is not there reads as zero.
func (at *location) readPenalty(rule *store.Rule, p *store.Penalty) {
	i, found := at.shard.find(at.ofPenalty(rule))
	if !found { // the rule: nobody has exceeded the limit
		*p = store.Penalty{}
		return
	}
	var b store.Bucket
	at.shard.read(&at.shard.slots[i], &b)
	*p = unpack(&b)
}

// savePenalty stores a penalty, and lists it if it is a block.
func (m *Store) savePenalty(at *location, c *store.Check, p *store.Penalty, now int64) {
	b, place := pack(p), at.ofPenalty(c.Rule)
	index, found := at.shard.find(place)
	at.shard.put(place, index, found, &b, c.Rule.Block.After, now)
	if p.Until > now {
		m.blocked.add(place, blockedKey{string(c.Key), c.Rule, at.number, p.Until}, now)
	}
}

// forgive forgets the penalty of the location's key, if its rule has any.
func (m *Store) forgive(at *location, rule *store.Rule) {
	if !rule.Penalized() {
		return
	}
	at.shard.forget(at.ofPenalty(rule))
	m.blocked.remove(at.ofPenalty(rule))
}

// penaltyScore is a penalty's score for eviction: a block is kept as the bucket of
// a client that has nothing left is, and strikes for the part that they are of a
// block; what may follow longer blocks is worth half of one.
func penaltyScore(b *store.Bucket, after float32, now int64) score {
	p := unpack(b)
	if p.Until > now {
		return limited | score(b.Expires)
	}
	part := float32(0)
	if p.Window > now {
		part = roughly(p.Strikes) / after
	}
	if p.Level > 0 {
		part = max(part, 0.5)
	}
	return score(math.Float32bits(part))
}
