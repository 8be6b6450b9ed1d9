package script

import (
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// Hold stands for a hold among the checks of a group: it is the penalty of no check.
	Hold = math.MinInt

	// HoldTime is the length of the sliding window in which holds are counted. A hold that
	// nobody removes expires after one or two of these times.
	HoldTime      = time.Second
	holdAlgorithm = store.SlidingWindow

	// HoldRoom is how many holds a key can have.
	HoldRoom = 1 << 30
)

// HoldHead is what the record of a hold begins with. Its limit is the last of all, so
// that the script finds it at the end of a value.
const HoldHead = "\xff\xff\xff\xff" + // store.ReservedID
	"\x30\x34" + // a sliding window in microseconds, whose length takes 3 bytes and whose counts take 4
	"\x40\x42\x0f" // HoldTime

// AddHolds adds a check to each key of the group that takes so many holds, or gives them
// back in a refund; taken is when they were taken. It reports false, and adds none, if
// there is no room for all of these checks.
func (g *Group) AddHolds(holds, taken int64) bool {
	if int(g.data[checksAt])+len(g.tags) > store.MaxChecks {
		return false
	}
	for _, tag := range g.tags {
		p, n := g.next(tag, store.ReservedID)
		g.data = append(g.data, byte(holdAlgorithm))
		for _, n := range [...]int64{1, HoldTime.Microseconds(), HoldRoom, holds, 0} {
			g.data = appendNumber(g.data, n)
		}
		g.data = append(append(g.data, byte(len(HoldHead))), HoldHead...)
		if g.Op == Refund {
			g.data = appendNumber(g.data, taken)
		}
		g.insert(p, n, Hold, holdAlgorithm)
	}
	return true
}
