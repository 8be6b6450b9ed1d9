package core

import (
	"slices"

	"github.com/weblimit/weblimit/keyfuncs"
)

// When applies the limit only to requests for which c holds. Several must all hold.
// The limit applies, too, where that is not known ([keyfuncs.Unknown]): a condition
// on routes, of a limiter in front of the router. It logs [AdviceRoute] then.
func (l Limit) When(c keyfuncs.Condition) Limit {
	l.when = append(slices.Clip(l.when), c)
	return l
}

// Unless applies the limit only to requests for which c does not hold, or is not
// known to.
func (l Limit) Unless(c keyfuncs.Condition) Limit { return l.When(keyfuncs.Not(c)) }
