package counting

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// A ledger window is a calendar window whose use is also kept in a book outside the store: see
// [LedgerOf]. A bucket of it is one life of an account, which is what one key has used of one
// limit in one period. X is the units used, and Y the position: the generation, which is the
// number of that life, and the number of changes since it began. So the positions of all states of
// an account are in order, and a book can write states down more than once, or late.
//
// Generation 1 begins in the store itself, with nothing used: a store that has the account of the
// period before knows that nobody has charged that of the present one. All accounts begin in the same
// instant, and no book need be asked then. A book begins the generations from 2 on.
//
// A store that has lost a bucket, or that never had it, does not know what the account has used.
// Then Y is 0, and the account is unknown until a [Restorer] is told. What a bucket was charged
// under another algorithm or in other periods stays in X, and counts when it is restored.
//
// A server that takes over for another one, or starts again, may have an older state of the bucket, and
// would give its positions a second time, to other changes. So a bucket has the history of the server that began its
// generation, and under another history it is unknown, too: it is stale.

const (
	// changeBits is how much of a position counts changes. With the generation, a position is
	// below 2^53, which Lua computes exactly.
	changeBits = 36
	allChanges = 1<<changeBits - 1

	// lastChange ends a generation: from there on, the account is unknown, and goes on with a new
	// one. One call of redisstore's script makes fewer changes than are left.
	lastChange = allChanges - 1<<10

	// KeptAfter is how long after its period an account is kept, so that the next one can begin
	// without a book. The script of redisstore has it, too.
	KeptAfter = 6 * time.Hour

	// FirstGeneration is the generation that begins in a store.
	FirstGeneration = 1

	// MaxGeneration is the last generation of an account.
	MaxGeneration = 1<<17 - 1

	// unknownRetry is the RetryAfter of an unknown account, which only a book should see.
	unknownRetry = time.Second
)

// Generation returns the generation of an [store.Account].Position: 0 for an account that is unknown, and
// 1 or more for others.
func Generation(position int64) int64 { return position >> changeBits }

// LedgerOf returns the twin of a [store.Calendar] rule whose use is kept in a book: the rule with the
// same name, ID and numbers, and [store.Ledger] for its algorithm. It is for wrappers of stores that
// keep such a book. They call it once for each rule and put its result into the checks they
// pass on. It returns an error for other algorithms, and for a rule with a penalty: an account
// that the store does not know must not count towards a block.
func LedgerOf(r *store.Rule) (*store.Rule, error) {
	if r.Algorithm != store.Calendar {
		return nil, store.AtLimit(r.Name, fmt.Errorf("only the use of a calendar window can be kept in a book, not that of a %v", r.Algorithm))
	}
	n := r.Numbers
	n.Algorithm = store.Ledger
	twin, err := store.NewRule(r.Name, n)
	if err != nil {
		return nil, err
	}
	return &twin, nil
}

// ledger is a calendar window with positions.
type ledger struct{ calendarWindow }

func (ledger) roll(r *store.Rule, b *Bucket, now, _ int64) {
	if b.X == 0 && b.Y == 0 {
		_, b.Expires, _ = r.Period(now)
	}
	if b.Y&allChanges > lastChange {
		b.Y = 0
	}
}

// beginNext makes the bucket of an account whose period has ended that of the period after it, if
// that is the present one. It is written back as soon as it is charged.
func (b *Bucket) beginNext(r *store.Rule, now int64) bool {
	if r.Algorithm != store.Ledger || Generation(b.Y) == 0 || b.Form != formOf(r) || now >= b.KeptUntil() {
		return false
	}
	start, end, _ := r.Period(now)
	if b.Expires != start {
		return false
	}
	b.Expires, b.X, b.Y = end, 0, FirstGeneration<<changeBits
	return true
}

// KeptUntil returns until when a store keeps the bucket, in microseconds since the epoch. Before that
// it may only drop it for want of room.
func (b *Bucket) KeptUntil() int64 {
	if b.Form.Algorithm == store.Ledger && b.Expires > 0 {
		return b.Expires + KeptAfter.Microseconds()
	}
	return b.Expires
}

// bringBack forgets the account of a later period, which the book has.
func (ledger) bringBack(r *store.Rule, b *Bucket, now int64) bool {
	if _, _, next := r.Period(now); b.Expires <= next {
		return false
	}
	b.Expires, b.X, b.Y = 0, 0, 0
	return true
}

// read does not know the present history: see State.read.
func (ledger) read(_ *store.Rule, b *Bucket, now, _ int64, n *[4]int64) {
	n[0], n[1], n[2], n[3] = b.X, b.Expires-now, b.Y, 0
}

// staleBit flags the number of a reading that has the history: the position beside it is of another one.
const staleBit = 1

// isKnown reports whether the numbers of a reading are those of a known account.
func (ledger) isKnown(n *[4]int64) bool { return n[2] > 0 && n[3]&staleBit == 0 }

// charge leaves the bucket of an unknown account unknown: it has adopted what was used under
// other numbers.
func (ledger) charge(_ *store.Rule, b *Bucket, _, cost int64) {
	b.X += cost
	if b.Y > 0 {
		b.Y++
	}
}

func (ledger) refund(r *store.Rule, b *Bucket, _, cost, at int64) {
	if units := min(b.X, cost); b.Y > 0 && units > 0 && r.PeriodEnd(at) == b.Expires {
		b.X -= units
		b.Y++
	}
}

func (l ledger) remaining(r *store.Rule, n *[4]int64) int64 {
	if !l.isKnown(n) {
		return 0
	}
	return r.Burst - n[0]
}

func (l ledger) wait(r *store.Rule, cost int64, n *[4]int64, _ bool) int64 {
	switch {
	case !l.isKnown(n):
		return unknownRetry.Microseconds()
	case cost <= r.Burst-n[0]:
		return 0
	}
	return n[1]
}

// Tell sets c.Account, if there is one, to the state that the reading of its bucket holds.
func (reading *Reading) Tell(c *store.Check) {
	if c.Account == nil || c.Rule.Algorithm != store.Ledger {
		return
	}
	n := &reading.Numbers
	*c.Account = store.Account{Used: n[0], Position: n[2], History: n[3] >> 1, Stale: n[3]&staleBit != 0}
	if c.Account.Position == 0 {
		c.Account.Used = 0
	}
}

// IsUnknown reports whether a reading of a ledger is that of an account that the store does not know.
func (reading *Reading) IsUnknown() bool { return !ledger{}.isKnown(&reading.Numbers) }

// setAside makes the bucket of a stale account one of an unknown account, and keeps its position.
func (s *State) setAside(r *store.Rule) {
	if s.stale = 0; r.Algorithm == store.Ledger && s.Bucket.Y > 0 && s.Bucket.History != s.History {
		s.stale, s.Bucket.Y = s.Bucket.Y, 0
	}
}

// read reads the bucket, and the history beside it. A bucket that is still stale has its position again.
func (s *State) read(r *store.Rule, now, cost int64) {
	if s.exceeds {
		s.Bucket.readForeign(r, now, cost, &s.reading)
		return
	}
	s.Bucket.Read(r, now, cost, &s.reading)
	if r.Algorithm != store.Ledger {
		return
	}
	n := &s.reading.Numbers
	if n[3] = s.History << 1; s.stale != 0 && s.Bucket.Y == 0 {
		s.Bucket.Y, n[2] = s.stale, s.stale
		n[3] |= staleBit
	}
}

// isUnknown reports whether a bucket that was opened under r is that of an unknown account.
func (b *Bucket) isUnknown(r *store.Rule) bool { return r.Algorithm == store.Ledger && b.Y == 0 }
