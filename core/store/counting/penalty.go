package counting

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// highestLevel is where counting blocks stops: redisstore has two bytes for it.
const highestLevel = 1<<16 - 1

// ReservedID is an ID under which a store can keep records of its own. It is above all others: no limit
// has it as its ID or as its [PenaltyID].
const ReservedID = 1<<(idBits+1) - 1

// idBits is the length of a [store.Rule.ID].
const idBits = 52

// PenaltyID returns the ID under which a store that has one table for buckets and penalties
// keeps the penalties of the rule's keys. It differs from [store.Rule.ID], under which such a store
// keeps the buckets, and from those of all other limits. A store with a table for each can use [store.Rule.ID] for both.
func PenaltyID(r *store.Rule) uint64 { return r.ID() | 1<<idBits }

// Penalty is what a store keeps for a key that exceeds a rule with a [store.Block], beside its
// bucket. Times are microseconds since the epoch. The zero Penalty is that of a key that
// was never denied. A Penalty that has expired means the same, so a store can drop it. A
// Penalty is not safe for concurrent use.
type Penalty struct {
	Strikes int64 // denials that count towards a block
	Window  int64 // when the strikes stop counting; without any, when the last block began
	Until   int64 // when the last block ends
	Level   int64 // number of blocks in a row
	Expires int64 // when the penalty means nothing any more
}

// open prepares a stored penalty to be read and changed at now under the Block of its rule,
// which the other methods require: what is over is forgotten. If the clock was set back since,
// denials count, and a block lasts, no longer than if they began at now. It reports whether the penalty had to
// be brought back.
func (p *Penalty) open(b *store.Block, now int64) (changed bool) {
	if p.Expires <= now {
		*p = Penalty{}
		return false
	}
	if p.Window > now && p.Strikes == 0 { // the block begins later than now
		p.Window, p.Until, changed = now, now+p.Until-p.Window, true
	} else if p.Strikes > 0 {
		if p.Until > now { // a blocked key counts no denials, so the block was over
			p.Until, changed = now, true
		}
		if latest := now + b.Within.Microseconds(); p.Window > latest {
			p.Window, changed = latest, true
		}
		if p.Window <= now {
			p.Strikes, p.Window = 0, 0
		}
	}
	if changed {
		p.expire(b)
	}
	if p.Until+b.Max.Microseconds() <= now {
		p.Level = 0
	}
	if p.Level == 0 && p.Until <= now {
		p.Until = 0
	}
	return changed
}

// strike counts a denial in an opened penalty of a key that is not blocked. It begins a
// block if the denial is the last that it takes.
func (p *Penalty) strike(b *store.Block, now int64) {
	if p.Strikes == 0 {
		p.Window = now + b.Within.Microseconds()
	}
	if p.Strikes++; p.Strikes >= b.After {
		p.Strikes, p.Window = 0, now
		p.Until = now + lasts(b, p.Level)
		p.Level = min(p.Level+1, highestLevel)
	}
	p.expire(b)
}

// block blocks the key of an opened penalty for d from now on, in place of any block in
// force.
func (p *Penalty) block(b *store.Block, now int64, d time.Duration) {
	p.Strikes, p.Window, p.Until = 0, now, now+d.Microseconds()
	p.expire(b)
}

func (p *Penalty) expire(b *store.Block) {
	forgotten := p.Until
	if p.Level > 0 {
		forgotten += b.Max.Microseconds()
	}
	p.Expires = max(forgotten, p.Window)
}

// lasts returns the length of a block after level others, in microseconds.
func lasts(b *store.Block, level int64) int64 {
	lasts, most := b.For.Microseconds(), b.Max.Microseconds()
	for ; level > 0 && b.Factor > 1 && lasts < most; level-- {
		lasts = min(lasts*b.Factor, most) // at most 2^49 × 1000
	}
	return lasts
}

// ManualBlock is a block that an operator has set by hand under a rule without a [store.Block]. Under a rule
// with one, such a block is part of the [Penalty]. Times are microseconds since the epoch. The zero
// ManualBlock is none; one that has ended means the same, so a store can drop it. A ManualBlock is not
// safe for concurrent use.
type ManualBlock struct {
	Since int64 // when it was set
	Until int64 // when it ends, and means nothing any more
}

// open prepares a stored block to be read at now, and reports whether it had to be brought back: if the
// clock was set back since, it lasts no longer than if it began now.
func (m *ManualBlock) open(now int64) (changed bool) {
	switch {
	case m.Until <= now:
		*m = ManualBlock{}
	case m.Since > now:
		m.Since, m.Until, changed = now, now+m.Until-m.Since, true
	}
	return changed
}

// setBlocked turns the answer of a limit into that of a block which ends in left microseconds.
// The limit itself may ask for a longer wait. If the cost never fits, no wait helps.
func setBlocked(r *store.Result, left int64, fits bool) {
	r.Allowed, r.Charged, r.Blocked, r.Remaining = false, false, true, 0
	r.Window = max(r.RetryAfter, micros(left))
	r.ResetAfter = max(r.ResetAfter, r.Window)
	if fits {
		r.RetryAfter = r.Window
	}
}
