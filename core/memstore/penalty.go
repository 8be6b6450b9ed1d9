package memstore

import (
	"math"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// A penalty is a bucket of its own, in the shard of the limit's bucket, so that one lock
// is enough for both.

// pack makes a bucket of a penalty: X is the end of the strikes' window, Y the end of the
// block, and the form's unit holds level and strikes.
func pack(p *counting.Penalty) counting.Bucket {
	return counting.Bucket{
		Expires: p.Expires, X: p.Window, Y: p.Until,
		Form: counting.Form{Algorithm: counting.PenaltyRecord, Tick: 1, Rate: 1, Unit: p.Level<<32 | p.Strikes},
	}
}

// unpack is the reverse of pack.
func unpack(b *counting.Bucket) counting.Penalty {
	return counting.Penalty{Strikes: b.Form.Unit & math.MaxUint32, Level: b.Form.Unit >> 32, Window: b.X, Until: b.Y, Expires: b.Expires}
}

// ofPenalty returns the place of the penalty that belongs to the bucket at p.
func (p place) ofPenalty(rule *store.Rule) place {
	p.hash += counting.PenaltyID(rule)*spacing - rule.ID()*spacing
	return p
}

// readPenalty reads the penalty. One that is not there reads as zero.
func (at *location) readPenalty(rule *store.Rule, p *counting.Penalty) {
	i, found := at.shard.find(at.ofPenalty(rule))
	if !found { // the usual case
		*p = counting.Penalty{}
		return
	}
	var b counting.Bucket
	at.shard.read(&at.shard.slots[i], &b)
	*p = unpack(&b)
}

// savePenalty stores a penalty; zero removes it. The list of blocks has the key if it is
// blocked.
func (m *Store) savePenalty(at *location, c *store.Check, p *counting.Penalty, now int64) {
	place := at.ofPenalty(c.Rule)
	if *p == (counting.Penalty{}) {
		at.shard.forget(place)
		m.blocked.remove(place)
		return
	}
	b := pack(p)
	index, found := at.shard.find(place)
	at.shard.put(place, index, found, &b, c.Rule.Block.After, now)
	if p.Until > now {
		m.blocked.add(place, blockedKey{string(c.Key), c.Rule, at.number, p.Until}, now)
	}
}

// penaltyScore is the score of a penalty. A block counts as a bucket that has nothing
// left. Strikes count as the part of a block that they are. A past block, which makes the
// next one longer, counts as half used at least.
func penaltyScore(b *counting.Bucket, after float32, now int64) score {
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
