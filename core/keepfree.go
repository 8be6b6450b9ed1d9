package core

import (
	"github.com/weblimit/weblimit/keyfuncs"
)

// KeepFree keeps a fraction of the burst, above 0 and below 1, for requests for which
// cond holds: the upper class. They can use the whole burst. All other requests, the
// lower class, are denied once no more than that fraction is left, whichever
// class has used the rest. Here the last fifth is for writes:
//
//	core.PerSecond(1000).By(keyfuncs.Everyone()).KeepFree(0.2, keyfuncs.Methods("POST"))
//
// Requests for which the answer is [keyfuncs.Unknown] are of the lower class.
// [Limiter.AllowKey] and [Limiter.Peek] ask as the upper class.
//
// Both classes count in one bucket. The remaining units, the time to wait and the
// policy in headers are those of the request's class. The levels of [Limit.WarnAt] and
// [Limit.Soft] are of the whole burst. A [Limit.Penalty] counts the denials of both
// classes, and blocks both.
//
// The lower class must be left at least one unit and the limit's cost, or the limit is
// an error when it is used. For tiers and scaled limits the fraction is of their burst,
// and the lower class has at least the cost. A token bucket that lets requests queue
// can't keep a part free; see [Limit.Wait].
//
// For more than two classes, and for their names in metrics, see [Limit.Classes].
func (l Limit) KeepFree(fraction float64, cond keyfuncs.Condition) Limit {
	l.settings.set(setKeepFree)
	l.classes = &classes{all: []Class{{When: cond, Keep: fraction}, {}}}
	return l
}
