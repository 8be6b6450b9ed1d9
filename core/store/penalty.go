//go:build moving

package store

import (
	"fmt"
	"time"
)

// Block says when a limit blocks a client that exceeds it again and again, and
// for how long; see [Limit.Penalty]. Durations are whole numbers of microseconds
// of at most 10 years.
type Block struct {
	// After is how many denials begin a block: the last of them is already
	// answered as one. At least 1, at most 2^31.
	After int64

	// Within is how long denials count, from the first of them on.
	Within time.Duration

	// For is how long the first block lasts.
	For time.Duration

	// Factor is how many times longer each repeated block is than the one before
	// it: 1 for never longer, at most 1000. Defaults to 2.
	Factor int64

	// Max is how long a block lasts at most, and for how long a block is
	// remembered after it has ended: one that begins later is a first one again.
	// At least For. Defaults to 24 hours, or to For if that is longer.
	Max time.Duration
}

const (
	defaultFactor   = 2
	defaultMaxBlock = 24 * time.Hour

	// The bounds keep all sums of times below 2^53 microseconds.
	longestBlock = 10 * 365 * 24 * time.Hour
	mostStrikes  = 1 << 31
	mostFactor   = 1000

	// highestLevel is where the count of repeated blocks ends: two bytes hold it.
	highestLevel = 1<<16 - 1
)

// Penalty blocks a client that exceeds the limit again and again: the After-th
// denial by this limit within Within begins a block, during which every request
// of that key is denied under this limit, as [ReasonBlocked], whether or not the
// limit has room. A further block lasts Factor times as long as the one before
// it, up to Max; once Max has passed after the last one, all is forgiven:
//
//	core.PerMinute(5).SlidingLog().By(keyfuncs.ClientIP()).Named("login").
//		Penalty(core.Block{After: 10, Within: time.Hour, For: 15 * time.Minute})
//
// What counts is a denial by this very limit: the request's own cost did not fit
// it. A request that another limit denies, a Peek and a cost of 0 do not. While a
// client is blocked its requests charge nothing, count nothing and extend
// nothing, and all limits of a blocked request are spared, as with any denial. A
// request of cost 0 is not blocked; one that repeats an operation is, although
// [Limit.OncePer] would let it pass an exhausted limit. RetryAfter is the time until the block ends or,
// if that is longer, until the limit has room: who waits for it is let through.
//
// Requests that lack the key and so share a bucket ([ShareBucket]) are denied by the
// limit, and never blocked: one of these clients could otherwise lock out all of
// them. Choose the key with the same care: a block of keyfuncs.Everyone is one of
// everybody, and one of an unverified API key or user name can be brought upon its
// owner by anyone.
//
// Counting and blocking are part of the decision, in the same round trip, and
// exact however many processes decide. So the limit's denials are not repeated
// from a redisstore.DenialCache, and it has no leases: each request of a flood
// asks the store. [Limiter.Blocks] lists who is blocked, [Limiter.Unblock] lifts a
// block and [Limiter.Block] sets one.
//
// With [Limit.Wait] it goes for a token bucket alone, which queues: requests that
// wait under other limits are asked for again and again. No request waits for the
// end of a block. Under a [Concurrent] limit a denial for want of a slot counts.
//
// In shadow mode blocks are counted and reported, and deny nobody; a request that
// waits for another limit counts each time it is asked for. The numbers of
// [Limit.Tiers] don't change the penalty. In an outage the process that stands in
// for the store counts and blocks by itself, in its own memory; neither knows of
// the other's blocks. With several processes that is each for itself. Refunds
// and charges leave the penalty as it is; [Limiter.Reset] forgets it.
func (l Limit) Penalty(b Block) Limit {
	l.penalty = &b
	return l
}

// unpenalized returns r for requests that share a bucket because they lack the key:
// they have nothing in common for which one could be blocked for another.
func (l *limit) unpenalized(r *Rule) *Rule {
	return made(&l.variants.get(r).plain, func() Rule {
		plain := *r
		plain.block = Block{}
		return plain
	})
}

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

// validBlockTime reports a time that stores can't count exactly.
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

// Block returns when the rule blocks a client, with its defaults filled in, or
// the zero Block if it has no penalty.
func (r *Rule) Block() Block { return r.block }

// Penalized reports whether the rule has a penalty.
func (r *Rule) Penalized() bool { return r.block.After > 0 }

// PenaltyID returns the number under which stores keep the penalties of the
// rule's keys, beside those of ID.
func (r *Rule) PenaltyID() uint32 { return r.id ^ penaltyID }

// penaltyID keeps a limit's records and their penalties apart.
const penaltyID = 0x27d4eb2f

// penalty is what a store remembers of a key that exceeds a rule with a Block.
// Times are microseconds since the epoch.
type penalty struct {
	strikes int64 // denials that count, until window
	window  int64
	until   int64 // when the last block ends
	level   int64 // how many blocks there were in a row
}

// open brings p to now: what is over is forgotten.
func (b *Block) open(p *penalty, now int64) {
	if p.window <= now {
		p.strikes, p.window = 0, 0
	}
	if p.until+b.Max.Microseconds() <= now {
		p.level = 0
	}
	if p.level == 0 && p.until <= now {
		p.until = 0
	}
}

// strike counts a denial in an opened penalty that is no block, and begins one if
// it is time.
func (b *Block) strike(p *penalty, now int64) {
	if p.strikes == 0 {
		p.window = now + b.Within.Microseconds()
	}
	if p.strikes++; p.strikes < b.After {
		return
	}
	p.strikes, p.window = 0, 0
	p.until = now + b.lasts(p.level)
	p.level = min(p.level+1, highestLevel)
}

// lasts returns the microseconds that a block lasts after level others.
func (b *Block) lasts(level int64) int64 {
	lasts, most := b.For.Microseconds(), b.Max.Microseconds()
	for ; level > 0 && b.Factor > 1 && lasts < most; level-- {
		lasts = min(lasts*b.Factor, most) // at most 2^49 × 1000
	}
	return lasts
}

// expires returns when an opened penalty says nothing any more.
func (b *Block) expires(p *penalty) int64 {
	forgotten := p.until
	if p.level > 0 {
		forgotten += b.Max.Microseconds()
	}
	return max(forgotten, p.window)
}

// block makes the answer of a limit that of a block which ends after so many
// microseconds. The limit itself may ask for a longer wait.
func (r *Result) block(left int64) {
	r.Allowed, r.Charged, r.Blocked, r.Remaining = false, false, true, 0
	r.RetryAfter = max(r.RetryAfter, micros(left))
	r.Window = r.RetryAfter
	r.ResetAfter = max(r.ResetAfter, r.RetryAfter)
}
