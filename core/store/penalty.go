package store

import (
	"fmt"
	"time"
)

// Block says when a limit blocks repeat offenders, and for how long; see
// core.Limit.Penalty. Durations are whole numbers of microseconds, at most 10 years.
type Block struct {
	// After is the number of denials that begin a block, from 1 to 2^31. The last of them
	// is already answered as blocked.
	After int64

	// Within is how long denials count, from the first of them on.
	Within time.Duration

	// For is how long the first block lasts.
	For time.Duration

	// Factor is how many times longer each further block is than the one before, from 1
	// (never longer) to 1000. Defaults to 2.
	Factor int64

	// Max is the longest time that a block lasts, at least For. It is also how long a
	// block is remembered after it has ended: the next block after that is a first one
	// again. Defaults to 24 hours, or to For if that is longer.
	Max time.Duration
}

const (
	defaultFactor   = 2
	defaultMaxBlock = 24 * time.Hour

	// The bounds keep all sums of times below 2^53 microseconds.
	longestBlock = 10 * 365 * 24 * time.Hour
	mostStrikes  = 1 << 31
	mostFactor   = 1000

	// highestLevel is where counting blocks stops: redisstore has two bytes for it.
	highestLevel = 1<<16 - 1
)

// complete checks a block and sets its defaults.
func (b Block) complete() (Block, error) {
	if b.Factor == 0 {
		b.Factor = defaultFactor
	}
	if b.Max == 0 {
		b.Max = max(defaultMaxBlock, b.For)
	}
	switch {
	case b.After < 1 || b.After > mostStrikes:
		return Block{}, fmt.Errorf("Block.After must be from 1 to 2^31, got %d", b.After)
	case b.Factor < 1 || b.Factor > mostFactor:
		return Block{}, fmt.Errorf("Block.Factor must be from 1 to %d, got %d", mostFactor, b.Factor)
	}
	for _, err := range []error{
		validBlockTime("Block.Within", b.Within), validBlockTime("Block.For", b.For), validBlockTime("Block.Max", b.Max),
	} {
		if err != nil {
			return Block{}, err
		}
	}
	if b.Max < b.For {
		return Block{}, fmt.Errorf("Block.Max must be at least Block.For, got %v and %v", b.Max, b.For)
	}
	return b, nil
}

// validBlockTime returns an error for a duration that stores can't count exactly.
func validBlockTime(what string, d time.Duration) error {
	switch {
	case d <= 0:
		return fmt.Errorf("%s must be positive, got %v", what, d)
	case d%time.Microsecond != 0:
		return fmt.Errorf("%s must be a whole number of microseconds, got %v", what, d)
	case d > longestBlock:
		return fmt.Errorf("%s must be at most 10 years", what)
	}
	return nil
}

// Penalized reports whether the rule has a penalty.
func (r *Rule) Penalized() bool { return r.Block.After > 0 }

// PenaltyID returns the ID under which a store that has one table for buckets and penalties
// keeps the penalties of the rule's keys. It differs from [Rule].ID, under which such a store
// keeps the buckets, and from those of all other limits. A store with a table for each can use [Rule].ID for both.
func (r *Rule) PenaltyID() uint64 { return r.id | 1<<idBits }

// Penalty is what a store keeps for a key that exceeds a rule with a [Block], beside its
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

// Open prepares a stored penalty to be read and changed at now under the Block of its rule,
// which the other methods require: what is over is forgotten. If the clock was set back since,
// denials count, and a block lasts, no longer than if they began at now. now is in microseconds
// since the epoch.
func (p *Penalty) Open(b *Block, now int64) { p.open(b, now) }

// open is Open, and reports whether the penalty had to be brought back.
func (p *Penalty) open(b *Block, now int64) (changed bool) {
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

// Strike counts a denial in an opened penalty of a key that is not blocked. It begins a
// block if the denial is the last that it takes.
func (p *Penalty) Strike(b *Block, now int64) {
	if p.Strikes == 0 {
		p.Window = now + b.Within.Microseconds()
	}
	if p.Strikes++; p.Strikes >= b.After {
		p.Strikes, p.Window = 0, now
		p.Until = now + b.lasts(p.Level)
		p.Level = min(p.Level+1, highestLevel)
	}
	p.expire(b)
}

// Block blocks the key of an opened penalty for d from now on, in place of any block in
// force.
func (p *Penalty) Block(b *Block, now int64, d time.Duration) {
	p.Strikes, p.Window, p.Until = 0, now, now+d.Microseconds()
	p.expire(b)
}

func (p *Penalty) expire(b *Block) {
	forgotten := p.Until
	if p.Level > 0 {
		forgotten += b.Max.Microseconds()
	}
	p.Expires = max(forgotten, p.Window)
}

// lasts returns the length of a block after level others, in microseconds.
func (b *Block) lasts(level int64) int64 {
	lasts, most := b.For.Microseconds(), b.Max.Microseconds()
	for ; level > 0 && b.Factor > 1 && lasts < most; level-- {
		lasts = min(lasts*b.Factor, most) // at most 2^49 × 1000
	}
	return lasts
}

// ManualBlock is a block that an operator has set by hand under a rule without a [Block]. Under a rule
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

// block turns the answer of a limit into that of a block which ends in left microseconds.
// The limit itself may ask for a longer wait. If the cost never fits, no wait helps.
func (r *Result) block(left int64, fits bool) {
	r.Allowed, r.Charged, r.Blocked, r.Remaining = false, false, true, 0
	r.Window = max(r.RetryAfter, micros(left))
	r.ResetAfter = max(r.ResetAfter, r.Window)
	if fits {
		r.RetryAfter = r.Window
	}
}

// Blocked is a key that a limit blocks.
type Blocked struct {
	Limit string    // the limit's name
	Key   string    // the key as stores keep it, with secrets hashed; core.Limiter.Unblock takes it
	Until time.Time // when the block ends, on the store's clock
	Level int64     // number of blocks in a row; blocks set by hand don't count
}

// ValidBlockTime returns an error if a block can't last for d: if d is not positive, above
// 10 years, or not a whole number of microseconds.
func ValidBlockTime(d time.Duration) error {
	if err := validBlockTime("a block", d); err != nil {
		return fmt.Errorf("weblimit: %w", err)
	}
	return nil
}

// ValidBlocks returns an error for checks whose keys no store can block or unblock: a check without a
// rule.
func ValidBlocks(checks []Check) error {
	for i := range checks {
		if checks[i].Rule == nil {
			return errNoRule
		}
	}
	return nil
}
