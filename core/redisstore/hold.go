package redisstore

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// A charge that may be given back is marked as such in the value that it is
// charged to, by a hold. Until the hold is gone, the script flags denials of the
// key, and nobody takes them for more than they are: see several.

const (
	// aHold stands for a hold among the checks of a part. It is the penalty of no
	// check.
	aHold = math.MinInt

	// holdAlgorithm is how holds are counted. Those that nobody clears are gone
	// after one or two holdTimes.
	holdAlgorithm = store.SlidingWindow
	holdTime      = time.Second
	holdRoom      = 1 << 30

	// unsettledBit flags an answer in the script's reply: not all of what was asked
	// fits, and the key has a hold.
	unsettledBit = 1 << 7

	// settleTime is how long a denied request is told to wait, at most, where what
	// it was denied for may be given back.
	settleTime = 10 * time.Millisecond
)

// holdHead is what the record of a hold begins with: the last of all limits, so
// that the script finds it at the end of a value.
var holdHead = [...]byte{0xff, 0xff, 0xff, 0xff, byte(holdAlgorithm) << 4, 3<<4 | 4, 0x40, 0x42, 0x0f}

// holdReply is the length of the script's answer to a hold.
var holdReply = replySize(take, holdAlgorithm)

// hold adds a hold to each key of the part: to a take one more, to a refund one
// less, of those that were left when the part's take was decided.
func (p *part) hold(taken int64) {
	p.holds = p.addHolds(1, taken) && p.op == take
}

// judge makes a take one that charges nothing, since it asks for more holds than
// there can be. It answers as a peek does and leaves what a denied take does: blocks,
// and records under the limits' numbers. It reports whether there was room for it.
func (p *part) judge() bool {
	p.judges = p.addHolds(2*holdRoom, 0)
	return p.judges
}

// addHolds adds to each key the check that holds are to it, if there is room for
// all of them.
func (p *part) addHolds(cost, taken int64) bool {
	if int(p.data[checksAt])+len(p.tags) > store.MaxChecks {
		return false
	}
	for _, tag := range p.tags {
		s, n := p.spot(tag, store.ReservedID)
		p.data = append(p.data, byte(holdAlgorithm))
		for _, n := range [...]int64{1, holdTime.Microseconds(), holdRoom, cost, 0} {
			p.data = appendNumber(p.data, n)
		}
		p.data = append(append(p.data, byte(len(holdHead))), holdHead[:]...)
		if p.op == refund {
			p.data = appendNumber(p.data, taken)
		}
		p.place(s, n, aHold, holdAlgorithm)
	}
	return true
}

// know adds the keys of checks to a part that need not ask for more than holds.
func (p *part) know(checks []store.Check) {
	for i := range checks {
		if !slices.ContainsFunc(p.tags, func(tag []byte) bool { return bytes.Equal(tag, checks[i].Key) }) {
			p.tags = append(p.tags, checks[i].Key)
		}
	}
}

// fit returns how many equal parts a check fits, by the script's answer, and notes
// what that says of this one.
func (p *part) fit(answer byte, check *store.Check) int {
	fits := int(answer &^ unsettledBit)
	if fits == 0 || p.op == take && !p.judges && p.nth >= fits {
		if p.isUnsettled(answer, check) {
			p.unsettled = true
		} else {
			p.settled = true
		}
	}
	return fits
}

// denies reports whether an enforced check did not fit.
func (p *part) denies() bool { return p.settled || p.unsettled }

// isUnsettled reports whether what an enforced check does not fit may be given back:
// by others, or by equal parts that it was charged with.
func (p *part) isUnsettled(answer byte, check *store.Check) bool {
	return !check.Shadow && check.Cost <= check.Rule.Burst && (answer&unsettledBit != 0 || p.holds && answer > 0)
}

// soon has a denial say no more than is known: that what was charged may be given
// back in a moment.
func soon(r *store.Result) {
	r.RetryAfter = min(r.RetryAfter, settleTime)
	r.Window = min(r.Window, settleTime)
}
