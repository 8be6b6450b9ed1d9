package redisstore

import (
	"time"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
)

// A charge that may be given back is marked as such in the value that it is
// charged to, by a hold. Until the hold is gone, the script flags denials of the
// key, and nobody takes them for more than they are: see several.

// settleTime is how long a denied request is told to wait, at most, where what
// it was denied for may be given back.
const settleTime = 10 * time.Millisecond

// hold adds a hold to each key of the part: to a take one more, to a refund one
// less, of those that were left when the part's take was decided.
func (p *part) hold(taken int64) {
	p.holds = p.AddHolds(1, taken) && p.Op == take
}

// judge makes a take one that charges nothing, since it asks for more holds than
// there can be. It answers as a peek does and leaves what a denied take does: blocks,
// and records under the limits' numbers. It reports whether there was room for it.
func (p *part) judge() bool {
	p.judges = p.AddHolds(2*script.HoldRoom, 0)
	return p.judges
}

// fit returns how many equal parts a check fits, by the script's answer, and notes
// what that says of this one.
func (p *part) fit(a script.Answer, check *store.Check) int {
	fits := a.Fits()
	if fits == 0 || p.Op == take && !p.judges && p.nth >= fits {
		if p.isUnsettled(a, check) {
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
func (p *part) isUnsettled(a script.Answer, check *store.Check) bool {
	return !check.Shadow && check.Cost <= check.Rule.Burst && (a.Unsettled() || p.holds && a.Fits() > 0)
}

// soon has a denial say no more than is known: that what was charged may be given
// back in a moment.
func soon(r *store.Result) {
	r.RetryAfter = min(r.RetryAfter, settleTime)
	r.Window = min(r.Window, settleTime)
}
