package memstore

import (
	"math"

	"github.com/weblimit/weblimit/core/store"
)

// Penalties in memory: a bucket of their own in the shard of the limit's, so that
// one lock is enough for both.

// pack makes a bucket of an opened penalty: Expires, X when the strikes end to
// count, Y when the block ends, and of the form the unit, the level and the
// strikes.
func pack(p *store.Penalty, b *store.Block) store.Bucket {
	return store.Bucket{
		Expires: p.Expires(b), X: p.Window, Y: p.Until,
		Form: store.Form{Algorithm: store.PenaltyRecord, Tick: 1, Rate: 1, Unit: p.Level<<32 | p.Strikes},
	}
}

// unpack is the reverse.
func unpack(b *store.Bucket) store.Penalty {
	return store.Penalty{Strikes: b.Form.Unit & math.MaxUint32, Level: b.Form.Unit >> 32, Window: b.X, Until: b.Y}
}

// ofPenalty returns where the penalty of a bucket is.
func (p place) ofPenalty(rule *store.Rule) place {
	p.hash += uint64(rule.PenaltyID())*spacing - uint64(rule.ID())*spacing
	return p
}

// penalty reads the penalty of the visit's key, as it is by now.
func (v *visit) penalty(rule *store.Rule, now int64) (p store.Penalty, at place, index int, found bool) {
	at = v.ofPenalty(rule)
	var b store.Bucket
	if index, found = v.shard.get(at, &b); found && b.Expires > now {
		p = unpack(&b)
		p.Open(&rule.Block, now)
	}
	return p, at, index, found
}

// judgePenalty has the check fit no longer if its key is blocked.
func (v *visit) judgePenalty(c *store.Check, now int64) {
	if c.Cost == 0 {
		return
	}
	if p, _, _, _ := v.penalty(c.Rule, now); p.Until > now {
		v.fits, v.reading.Blocked = false, p.Until-now
	}
}

// strike counts that the check did not fit, unless a block is the reason.
func (m *Store) strike(v *visit, c *store.Check, now int64) {
	if v.reading.Blocked > 0 {
		return
	}
	p, at, index, found := v.penalty(c.Rule, now)
	p.Strike(&c.Rule.Block, now)
	m.savePenalty(v, c, &p, at, index, found, now)
	if p.Until > now {
		v.reading.Blocked = p.Until - now
	}
}

// savePenalty stores a penalty, and lists it if it is a block.
func (m *Store) savePenalty(v *visit, c *store.Check, p *store.Penalty, at place, index int, found bool, now int64) {
	b := pack(p, &c.Rule.Block)
	v.shard.put(at, index, found, &b, c.Rule.Block.After, now)
	if p.Until > now {
		m.blocked.add(at, blockedKey{string(c.Key), c.Rule, v.number, p.Until}, now)
	}
}

// forgive forgets the penalty of the visit's key, if its rule has any.
func (m *Store) forgive(v *visit, rule *store.Rule) {
	if !rule.Penalized() {
		return
	}
	at := v.ofPenalty(rule)
	if index, found := v.shard.find(at); found {
		v.shard.remove(index)
	}
	m.blocked.remove(at)
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
