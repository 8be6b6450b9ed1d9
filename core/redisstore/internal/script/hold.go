package script

import (
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

const (
	// Hold stands for a hold in Group.Checks. It is ^i for no check i.
	Hold = math.MinInt

	// HoldTime is the length of the sliding window in which holds are counted. A hold that
	// nobody removes expires after one or two of these times.
	HoldTime = time.Second

	holdAlgorithm = store.SlidingWindow

	// HoldRoom is how many holds a key can have.
	HoldRoom = 1 << 30
)

// HoldHead is the head of a hold's record. Its limit is above all others, so that the script
// finds the record at the end of a value.
const HoldHead = "\xff\xff\xff\xff\xff\xff\x1f" + // counting.ReservedID
	"\x30\x34" + // a sliding window in microseconds, whose length takes 3 bytes and whose counts take 4
	"\x40\x42\x0f" // HoldTime

// AddHolds adds to each key of the group a check that takes the given number of holds. In a
// refund the check gives them back, and taken is when they were taken. AddHolds reports false
// and adds nothing if the group has no room for all of these checks.
func (g *Group) AddHolds(holds, taken int64) bool {
	if int(g.data[checksAt])+len(g.tags) > store.MaxChecks {
		return false
	}
	for _, tag := range g.tags {
		p, n := g.next(tag, counting.ReservedID)
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
