//go:build moving

package memstore

import "math"

// Penalties in memory: a bucket of their own in the shard of the limit's, so that
// one lock is enough for both.

// pack makes a bucket of an opened penalty: expires, x when the strikes end to
// count, y when the block ends, and of the form the unit, the level and the
// strikes.
func (p *penalty) pack(b *Block) bucket {
	return bucket{
		expires: b.expires(p), x: p.window, y: p.until,
		form: form{algorithm: penaltyRecord, tick: 1, rate: 1, unit: p.level<<32 | p.strikes},
	}
}

// unpack is the reverse.
func (b *bucket) unpack() penalty {
	return penalty{strikes: b.form.unit & math.MaxUint32, level: b.form.unit >> 32, window: b.x, until: b.y}
}

// ofPenalty returns where the penalty of a bucket is.
func (p place) ofPenalty(rule *Rule) place {
	p.hash += uint64(rule.PenaltyID())*spacing - uint64(rule.id)*spacing
	return p
}

// penalty reads the penalty of the visit's key, as it is by now.
func (v *visit) penalty(rule *Rule, now int64) (p penalty, at place, index int, found bool) {
	at = v.ofPenalty(rule)
	var b bucket
	if index, found = v.shard.get(at, &b); found && b.expires > now {
		p = b.unpack()
		rule.block.open(&p, now)
	}
	return p, at, index, found
}

// judgePenalty has the check fit no longer if its key is blocked.
func (v *visit) judgePenalty(c *Check, now int64) {
	if c.Cost == 0 {
		return
	}
	if p, _, _, _ := v.penalty(c.Rule, now); p.until > now {
		v.fits, v.reading.Blocked = false, p.until-now
	}
}

// strike counts that the check did not fit, unless a block is the reason.
func (m *Memory) strike(v *visit, c *Check, now int64) {
	if v.reading.Blocked > 0 {
		return
	}
	p, at, index, found := v.penalty(c.Rule, now)
	c.Rule.block.strike(&p, now)
	m.savePenalty(v, c, &p, at, index, found, now)
	if p.until > now {
		v.reading.Blocked = p.until - now
	}
}

// savePenalty stores a penalty, and lists it if it is a block.
func (m *Memory) savePenalty(v *visit, c *Check, p *penalty, at place, index int, found bool, now int64) {
	b := p.pack(&c.Rule.block)
	v.shard.put(at, index, found, &b, c.Rule.block.After, now)
	if p.until > now {
		m.blocked.add(at, blockedKey{string(c.Key), c.Rule, v.number, p.until}, now)
	}
}

// forgive forgets the penalty of the visit's key, if its rule has any.
func (m *Memory) forgive(v *visit, rule *Rule) {
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
func penaltyScore(b *bucket, after float32, now int64) score {
	p := b.unpack()
	if p.until > now {
		return limited | score(b.expires)
	}
	part := float32(0)
	if p.window > now {
		part = roughly(p.strikes) / after
	}
	if p.level > 0 {
		part = max(part, 0.5)
	}
	return score(math.Float32bits(part))
}
