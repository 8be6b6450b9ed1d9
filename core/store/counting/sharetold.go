package counting

import (
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// What Numbers of a [Reading] hold of a check with Share: in number 2 the parts that are the share per window, and in number 3 units or ticks
// with the standing and whether the check fits.
const (
	sharePart = 2
	tellPart  = 3

	tellFits     = 1
	tellStanding = 2
	tellCount    = 16
)

// tell sets what a reading says of the share of a request that asks for a cost: of one that fits how many units are left of the share
// before it is charged, of another one the ticks until it is within.
func (h *Sharing) tell(cost int64, fits bool, n *[4]int64) {
	share, count := h.share, int64(0)
	user := h.numbers.User != nil && h.split > 0
	switch {
	case fits:
		left := h.share - h.Client.Debt
		if user {
			left = min(left, h.split-h.User.Debt)
		}
		if h.standing != store.OverShare {
			count = max(left, 0) / h.of.Integers.Parts
		}
		if h.standing == store.OfMinimum {
			count = max(count, h.numbers.Minimum-integer.CeilDiv(h.Client.beforeLeast(h.numbers.Minimum), h.perWindow()))
		}
	case h.standing == store.OverMaximum:
		if most := h.numbers.Maximum; cost <= most {
			count = integer.CeilDiv(h.Client.Most+(cost-most)*h.perWindow(), most)
		}
	case h.standing == store.OverShare && h.share > 0:
		count = h.Client.until(h.share, h.parts, h.perWindow())
		if user {
			count = max(count, h.User.until(h.split, h.parts, h.perWindow()))
		}
	}
	if user && !h.User.holds(h.split, h.parts) {
		share = h.split
	}
	n[sharePart], n[tellPart] = share, count*tellCount+int64(h.standing)*tellStanding
	if fits {
		n[tellPart] += tellFits
	}
}

// answerShare sets what the answer of a check with Share says otherwise than that of another one.
func (reading *Reading) answerShare(r *store.Rule, cost int64, result *store.Result) {
	n := &reading.Numbers
	count := n[tellPart] / tellCount
	standing := store.Standing(n[tellPart] % tellCount / tellStanding)
	if result.Standing, result.Share = standing, n[sharePart]/r.Integers.Parts; standing == store.Undivided {
		return
	}
	result.Allowed = reading.Charged || n[tellPart]%2 == tellFits
	room := debtRemaining(r, n)
	if n[1] == beyond {
		room = 0
	}
	within := int64(0)
	if result.Allowed {
		if reading.Charged {
			count -= cost
		}
		within = min(count, room-KeptFrom(r, standing))
	}
	result.Remaining = max(room-KeptFrom(r, store.OverShare), within, 0)
	if result.Allowed || cost > r.Burst {
		return
	}
	wait := func(more int64) int64 {
		if cost+more > r.Burst {
			return never
		}
		return debtWait(r, cost+more, n)
	}
	after, tick := int64(0), r.Window.Microseconds()/r.Integers.Ticks
	const longest = 2 * int64(integer.Longest/time.Microsecond) // no bucket takes longer to refill, and a time.Duration holds it
	switch standing {
	case store.OverMaximum:
		if after = count * tick; count > 0 {
			after = max(after, wait(r.Guaranteed))
		}
	case store.OverShare:
		after = wait(KeptFrom(r, standing))
		if count > 0 {
			after = min(after, max(count*tick, wait(r.Guaranteed)))
		}
	default:
		after = wait(KeptFrom(r, standing))
	}
	if after == never {
		after = 0
	}
	result.RetryAfter = micros(min(after, longest))
}

// never is a wait that does not help.
const never = math.MaxInt64

// SetShare sets what a server that counts as this package does tells of a share.
func (reading *Reading) SetShare(share, told int64) {
	reading.Numbers[sharePart], reading.Numbers[tellPart] = share, told
}
