package core

import "github.com/weblimit/weblimit/keyfuncs"

// Cost sets how many units a request costs, at least 1 and at most the burst.
// Defaults to 1.
func (l Limit) Cost(n int64) Limit {
	l.settings.set(setCost)
	l.cost = n
	return l
}

// CostBy computes the cost from the request, such as the size of an upload or the
// length of a batch. A limit has either Cost or CostBy. A cost of 0 asks without charging. A
// cost above the burst is denied with [ReasonNeverFits], without Retry-After, and
// advice WL015 is logged. A negative cost is denied with [ReasonInvalidCost].
//
// f is called for each request, concurrently, and must be fast. Have it read headers by
// [keyfuncs.HeaderOf]: a request with a second line of one is then denied with status 400.
func (l Limit) CostBy(f func(keyfuncs.Request) int64) Limit {
	l.settings.setTo(setCostBy, f == nil)
	l.costBy = f
	return l
}
