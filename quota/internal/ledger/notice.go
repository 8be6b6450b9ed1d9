package ledger

import (
	"iter"
	"math/bits"
)

// Notice says that an account has reached a level. The ledger keeps one for each account and
// level, whichever process finds out first.
type Notice struct {
	Account
	Level          int // percent of included, and AgainStep for each notice of the level before
	Used           int64
	Included, Hard int64
	At             int64 // when, by the store's clock
}

// AgainStep is added to the level of a notice for each one before of the same account and level.
const AgainStep = 10_000

// After returns the level of a notice in the ledger, after others of the same account. It is false
// if there is to be none: of a level that was noticed before, unless more is included now, and the
// tenant was not beyond the level already when its allowance was raised.
func (n *Notice) After(others []*Notice) (level int, is bool) {
	level, is = n.Level, true
	for _, o := range others {
		if o.Level%AgainStep == n.Level {
			level += AgainStep
			is = is && n.Included > o.Included
		}
	}
	for _, o := range others {
		is = is && (level == n.Level || UnitsAt(n.Included, n.Level) > o.Used)
	}
	return level, is
}

// UnitsAt returns the units from which on a level is reached.
func UnitsAt(included int64, percent int) int64 { return (included*int64(percent) + 99) / 100 }

// LevelsIn yields the indexes of the bits that are set.
func LevelsIn(set uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; set != 0; set &= set - 1 {
			if !yield(bits.TrailingZeros64(set)) {
				return
			}
		}
	}
}
