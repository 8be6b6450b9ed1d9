package quota

import (
	"iter"
	"math/bits"
)

// notice says that an account has reached a level. The ledger keeps one for each account and
// level, whichever process finds out first.
type notice struct {
	account
	level          int // percent of included, and againStep for each notice of the level before
	used           int64
	included, hard int64
	at             int64 // when, by the store's clock
}

// againStep is added to the level of a notice for each one before of the same account and level.
const againStep = 10_000

// after returns the level of a notice in the ledger, after others of the same account. It is false
// if there is to be none: of a level that was noticed before, unless more is included now, and the
// tenant was not beyond the level already when its allowance was raised.
func (n *notice) after(others []*notice) (level int, is bool) {
	level, is = n.level, true
	for _, o := range others {
		if o.level%againStep == n.level {
			level += againStep
			is = is && n.included > o.included
		}
	}
	for _, o := range others {
		is = is && (level == n.level || unitsAt(n.included, n.level) > o.used)
	}
	return level, is
}

// unitsAt returns the units from which on a level is reached.
func unitsAt(included int64, percent int) int64 { return (included*int64(percent) + 99) / 100 }

// levelsIn yields the indexes of the bits that are set.
func levelsIn(set uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; set != 0; set &= set - 1 {
			if !yield(bits.TrailingZeros64(set)) {
				return
			}
		}
	}
}
