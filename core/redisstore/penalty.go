package redisstore

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// penalty is what the script knows a penalty by, among the algorithms of checks:
// it is a record of its own beside that of the limit that it guards.
const penalty store.Algorithm = 6

// hasPenalties is added to the operation of a part in which penalties guard checks.
const hasPenalties = 1 << 7

// guard adds the penalty of a check, unless the operation leaves it as it is.
func (p *part) guard(index int, check *store.Check) {
	switch p.op {
	case take, peek:
		if check.Cost == 0 {
			return // it neither counts nor is blocked
		}
		p.guards, p.equal = true, false // equal ones would not see each other's denials
		p.data[0] = byte(p.op) | hasPenalties
	case reset:
	default:
		return
	}
	p.addPenalty(index, check, check.Rule.Block.For)
}

// addPenalty adds the penalty of a check, whose first block lasts so long.
func (p *part) addPenalty(index int, check *store.Check, lasts time.Duration) {
	s, n := p.spot(check.Key, check.Rule.PenaltyID())
	p.data = appendPenalty(p.data, check, lasts)
	p.place(s, n, ^index, penalty)
}

// appendPenalty writes a penalty as the script reads it: see internal/script/lua.
func appendPenalty(dst []byte, check *store.Check, lasts time.Duration) []byte {
	block, algorithm := check.Rule.Block, byte(penalty)
	if check.Shadow {
		algorithm |= 1 << 7
	}
	dst = append(dst, algorithm)
	for _, n := range [...]int64{block.After, block.Within.Microseconds(), lasts.Microseconds(), block.Factor, block.Max.Microseconds()} {
		dst = appendNumber(dst, n)
	}
	dst = append(dst, penaltyHead)
	dst = binary.LittleEndian.AppendUint32(dst, check.Rule.PenaltyID())
	dst = append(dst, byte(penalty)<<4, penaltySizes)
	return binary.LittleEndian.AppendUint32(dst, check.Rule.ID())
}

// A penalty's record begins with a head of these bytes, whose sizes are such that
// what does not know penalties passes over it: to that, most of the state is a unit.
const (
	penaltyHead  = 6
	penaltySizes = 13<<4 | 7
)

// answerGuarded is answer for a part in which penalties guard checks: it was
// decided for itself alone.
func (p *part) answerGuarded(checks []store.Check, results []store.Result) {
	granted := 1
	for i, reply := range p.replies(checks) {
		of := i
		if i < 0 {
			of = ^i // a penalty that is a block denies what it guards
		}
		if !checks[of].Shadow {
			granted = min(granted, p.fit(reply[0], &checks[of]))
		}
	}
	if p.judges {
		granted = 0
	}
	p.granted = p.op == take && granted > 0
	for i, reply := range p.replies(checks) {
		if i >= 0 {
			results[i] = p.result(reply, &checks[i], granted, p.blocked(checks, i))
		}
	}
}

// replies yields the script's answer to each check i, and to its penalty for ^i,
// and leaves out holds.
func (p *part) replies(checks []store.Check) func(yield func(i int, reply string) bool) {
	return func(yield func(int, string) bool) {
		reply := p.reply
		for _, i := range p.checks {
			if i == aHold {
				reply = reply[holdReply:]
				continue
			}
			size := replySize(p.op, penalty)
			if i >= 0 {
				size = replySize(p.op, checks[i].Rule.Algorithm)
			}
			if !yield(i, reply[:size]) {
				return
			}
			reply = reply[size:]
		}
	}
}

// blocked returns for how many microseconds the key of a check is blocked.
func (p *part) blocked(checks []store.Check, check int) int64 {
	if !slices.Contains(p.checks, ^check) {
		return 0
	}
	for i, reply := range p.replies(checks) {
		if i == ^check {
			return get7(reply[1:])
		}
	}
	return 0
}
