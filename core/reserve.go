package core

import (
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Reserve keeps a fraction of the burst, above 0 and below 1, for requests for which
// cond holds: the upper class. They can use the whole burst. All other requests, the
// lower class, are denied once no more than that fraction is left, whichever
// class has used the rest. Here the last fifth is for writes:
//
//	core.PerSecond(1000).By(keyfuncs.Everyone()).Reserve(0.2, keyfuncs.Methods("POST"))
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
// can't have a reserve; see [Limit.Wait].
func (l Limit) Reserve(fraction float64, cond keyfuncs.Condition) Limit {
	l.settings.set(setReserve)
	l.reserve = &reserve{fraction: fraction, upper: cond}
	return l
}

// lowerRule is [Limit.Rule] for the lower class of a limit with [Limit.Reserve]. It is
// an error without Reserve. It is for tests of a store.
func (l Limit) lowerRule() (Rule, error) {
	r, err := l.Rule()
	if err != nil {
		return Rule{}, err
	}
	if l.reserve == nil {
		return Rule{}, fmt.Errorf("weblimit: limit %q: it has no lower class without Reserve", l.name)
	}
	return l.reserve.lower(&r, l.cost), nil
}

// reserve holds the arguments of Reserve.
type reserve struct {
	fraction float64
	upper    keyfuncs.Condition // holds for requests that may use the whole burst
}

func (s *reserve) validate() error {
	if !(s.fraction > 0 && s.fraction < 1) { // NaN, too
		return fmt.Errorf("the fraction of Reserve must be above 0 and below 1, got %v", s.fraction)
	}
	if err := s.upper.Err(); err != nil {
		return errors.New(unprefixed(err))
	}
	return nil
}

// unreserved returns how many of n units are not reserved, to a millionth.
func (s *reserve) unreserved(n int64) int64 {
	const million = 1_000_000
	ppm := million - int64(s.fraction*million+0.5)
	return n/million*ppm + n%million*ppm/million
}

// lower returns r for the lower class. Only the burst differs, and nothing that
// decides how the bucket is stored.
func (s *reserve) lower(r *Rule, cost int64) Rule {
	n := r.Numbers
	n.Burst = min(max(s.unreserved(r.Burst), cost, 1), r.Burst)
	return derive(r, n)
}

// lower returns the cached rule of the lower class that is derived from r.
func (l *limit) lower(r *Rule) *Rule {
	return loadOrMake(&l.variants.get(r).lower, func() Rule { return l.reserve.lower(r, l.cost) })
}
