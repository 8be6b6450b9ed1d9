package core

import (
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Reserve keeps a share of the burst, above 0 and below 1, for requests for which
// cond holds. Those have all of the limit, and others are denied once no more than
// the share is left, whoever has used the rest. With a share of 0.2 the last fifth
// is for paying customers, or for writes:
//
//	core.PerSecond(1000).By(keyfuncs.Everyone()).Reserve(0.2, keyfuncs.Methods("POST"))
//
// Requests for which it is not known whether cond holds are of the lower class.
// Both classes count in one bucket. What remains, how long to wait and the policy
// in headers are those of the request's own class; levels of [Limit.WarnAt] and
// [Limit.Soft] are of the whole. A share that leaves the lower class less than a
// unit, or less than the limit's cost, is an error when the limit is used. Of a
// tier, or a scaled limit, the share is of its burst, and the lower class has at
// least the cost. AllowKey and Peek ask as the class that has all. It is an error for a token
// bucket that lets requests queue; see [Limit.Wait]. A [Limit.Penalty] counts the
// denials of both classes, and blocks both.
func (l Limit) Reserve(share float64, cond keyfuncs.Condition) Limit {
	l.reserve = &reserve{share: share, all: cond}
	return l
}

// lowerRule is [Limit.Rule] for the requests of a limit with Reserve for which its
// condition does not hold. Tests of stores need it.
func (l Limit) lowerRule() (Rule, error) {
	r, err := l.Rule()
	if err != nil {
		return Rule{}, err
	}
	if l.reserve == nil {
		return Rule{}, fmt.Errorf("weblimit: limit %q: there is no lower class without Reserve", l.name)
	}
	return l.reserve.lower(&r, l.cost), nil
}

// reserve is what Reserve was told.
type reserve struct {
	share float64
	all   keyfuncs.Condition // holds for requests that have all
}

func (s *reserve) validate() error {
	if !(s.share > 0 && s.share < 1) { // NaN, too
		return fmt.Errorf("the share of Reserve must be above 0 and below 1, got %v", s.share)
	}
	if err := s.all.Err(); err != nil {
		return errors.New(unprefixed(err))
	}
	return nil
}

// part returns what is not reserved of n units, to a millionth.
func (s *reserve) part(n int64) int64 {
	const million = 1_000_000
	ppm := million - int64(s.share*million+0.5)
	return n/million*ppm + n%million*ppm/million
}

// lower returns r for the lower class, which differs in nothing by which a bucket is
// kept.
func (s *reserve) lower(r *Rule, cost int64) Rule {
	n := r.Numbers
	n.Burst = min(max(s.part(r.Burst), cost, 1), r.Burst)
	return derive(r, n)
}

// lower returns what r is for the lower class.
func (l *limit) lower(r *Rule) *Rule {
	return loadOrMake(&l.variants.get(r).lower, func() Rule { return l.reserve.lower(r, l.cost) })
}
