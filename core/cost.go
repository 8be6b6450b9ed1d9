package core

import "github.com/weblimit/weblimit/keyfuncs"

// Cost is how many units a request takes, at least 1 and at most the burst.
// Defaults to 1.
func (l Limit) Cost(n int64) Limit {
	l.cost = n
	return l
}

// CostBy takes the units of a request from the request: its size, a batch's
// length, a route's weight. 0 asks without charging; more than the burst can
// never be paid; a request of negative cost is denied with ReasonInvalidCost.
// The function runs on every request, maybe on many at once, and must not block.
func (l Limit) CostBy(f func(keyfuncs.Request) int64) Limit {
	l.costBy = f
	return l
}
