package quota

import (
	"iter"
	"math/bits"
)

// notice says that an account has reached a level. The ledger keeps one for each account and
// level, whichever process finds out first.
type notice struct {
	account
	level          int // percent of included
	used           int64
	included, hard int64
	at             int64 // when, by the store's clock
}

// defaultLevels are the levels of notices, in percent of what a tenant's plan includes.
var defaultLevels = []int{80, 90, 100}

// maxLevels bounds the levels of a book.
const maxLevels = 64

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
