package core

import (
	"fmt"

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
func (l Limit) KeepFree(fraction float64, cond keyfuncs.Condition) Limit {
	l.settings.set(setKeepFree)
	l.keepFree = &keepFree{fraction: fraction, upper: cond}
	return l
}

// keepFree holds the arguments of KeepFree.
type keepFree struct {
	fraction float64
	upper    keyfuncs.Condition // holds for requests that may use the whole burst
}

func (s *keepFree) validate() error {
	if !(s.fraction > 0 && s.fraction < 1) { // NaN, too
		return fmt.Errorf("the fraction of KeepFree must be above 0 and below 1, got %v", s.fraction)
	}
	if err := s.upper.Err(); err != nil {
		return err
	}
	return nil
}

// unkept returns how many of n units are not kept free, to a millionth.
func (s *keepFree) unkept(n int64) int64 {
	const million = 1_000_000
	ppm := million - int64(s.fraction*million+0.5)
	return n/million*ppm + n%million*ppm/million
}

// lower returns r for the lower class. Only the burst differs, and nothing that
// decides how the bucket is stored.
func (s *keepFree) lower(r *Rule, cost int64) Rule {
	n := r.Numbers
	n.Burst = min(max(s.unkept(r.Burst), cost, 1), r.Burst)
	return derive(r, n)
}
