package script

import (
	"slices"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// mark is the record of an operation that is charged once, for a check with Once. It has a
// Redis key of its own, in the hash slot of the client's key, because it expires at another
// time than the limits do. The script decides it before the check.
type mark struct {
	check int // of the request's checks
	of    *store.Check
}

// markWidth is the length of a mark's state: when the operation was charged, and its repeats.
const markWidth = 7 + 2

// AddMark adds the mark of check number index of the request. All marks come before all
// checks.
func (g *Group) AddMark(index int, check *store.Check, charged int64) {
	g.marks = append(g.marks, mark{index, check})
	g.data[checksAt]++
	g.data[keysAt]++
	g.data = append(g.data, 1, byte(counting.MarkRecord))
	for _, n := range [...]int64{1, check.Rule.Once.Microseconds(), check.Rule.Repeats, 0, 0} {
		g.data = appendNumber(g.data, n)
	}
	g.data = append(g.data, recordHead)
	g.data = appendID(g.data, check.Rule.ID())
	g.data = append(g.data, byte(counting.MarkRecord)<<4, markWidth) // tick 0: microseconds
	if g.Op == Refund {
		g.data = appendNumber(g.data, charged)
	}
}

// markOf returns the number of a check's mark, from 1, or 0 if it has none.
func (g *Group) markOf(index int) int {
	return 1 + slices.IndexFunc(g.marks, func(m mark) bool { return m.check == index })
}
