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
