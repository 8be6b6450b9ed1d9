package core

import (
	"slices"

	"github.com/weblimit/weblimit/keyfuncs"
)

// When applies the limit only to requests for which c holds. If there are several, all
// must hold.
//
// The limit also applies when the answer is [keyfuncs.Unknown]: a condition on routes,
// in a limiter in front of the router. advice WL008 is logged then.
func (l Limit) When(c keyfuncs.Condition) Limit {
	l.when = append(slices.Clip(l.when), c)
	return l
}

// Unless applies the limit to all requests but those for which c holds. It also
// applies when the answer is [keyfuncs.Unknown].
func (l Limit) Unless(c keyfuncs.Condition) Limit { return l.When(keyfuncs.Not(c)) }
