package script

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// hasPenalties is added to the operation of a group in which penalties guard checks.
const hasPenalties = 1 << 7

// GuardChecks makes the penalties of a take or peek count: a check that is blocked does not
// fit, and a check that does not fit is counted by its penalty.
func (g *Group) GuardChecks() { g.data[0] = byte(g.Op) | hasPenalties }

// AddPenalty adds the penalty of check number index of the request; its first block lasts as
// given. In Checks it is ^index.
func (g *Group) AddPenalty(index int, check *store.Check, lasts time.Duration) {
	p, n := g.next(check.Key, counting.PenaltyID(check.Rule))
	g.data = appendPenalty(g.data, check, lasts)
	g.insert(p, n, ^index, counting.PenaltyRecord)
}

// AddLease adds the penalty of check number index of a take that takes units ahead: if no denial
// and no block of the key counts, denials do not count for as long as given, since the units may be
// held by a process. Else the check does not fit.
func (g *Group) AddLease(index int, check *store.Check, held time.Duration) {
	rule := *check.Rule
	rule.Block.After = 0
	g.AddPenalty(index, &store.Check{Key: check.Key, Rule: &rule}, held)
}

func appendPenalty(dst []byte, check *store.Check, lasts time.Duration) []byte {
	block, algorithm := check.Rule.Block, byte(counting.PenaltyRecord)
	if check.Shadow {
		algorithm |= 1 << 7
	}
	dst = append(dst, algorithm)
	for _, n := range [...]int64{block.After, block.Within.Microseconds(), lasts.Microseconds(), block.Factor, block.Max.Microseconds()} {
		dst = appendNumber(dst, n)
	}
	dst = append(dst, recordHead)
	dst = appendID(dst, counting.PenaltyID(check.Rule))
	dst = append(dst, byte(counting.PenaltyRecord)<<4, 0) // tick 0: microseconds; neither a unit nor counts
	return appendID(dst, check.Rule.ID())
}

// AddManual adds the block by hand of check number index of the request: in a Charge one that lasts as
// given, or none if that is 0; a Reset forgets it. In Checks it is ^index, as a penalty.
func (g *Group) AddManual(index int, check *store.Check, lasts time.Duration) {
	p, n := g.next(check.Key, check.Rule.ID())
	g.data = append(g.data, byte(counting.ManualRecord))
	for _, n := range [...]int64{0, lasts.Microseconds(), 0, 0, 0} {
		g.data = appendNumber(g.data, n)
	}
	g.data = append(g.data, recordHead)
	g.data = appendID(g.data, check.Rule.ID())
	g.data = append(g.data, byte(counting.ManualRecord)<<4, manualState) // tick 0: microseconds; no unit
	g.insert(p, n, ^index, counting.PenaltyRecord)
}
