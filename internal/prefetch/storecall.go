package prefetch

// What the store is asked of a request: the checks that no slice has decided, each
// with the slice that is taken ahead with it.

import (
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

// storeCall is one Take of the store. It is used again by later requests.
type storeCall struct {
	which   []int // which of the request's checks these are
	checks  []store.Check
	results []store.Result
}

var storeCalls = sync.Pool{New: func() any { return new(storeCall) }}

// fill adds the checks that are still to be decided.
func (s *storeCall) fill(checks []store.Check, plans []checkPlan) {
	for i := range plans {
		if plans[i].paidBy == nil {
			c := checks[i]
			c.Cost += plans[i].ahead
			s.which, s.checks, s.results = append(s.which, i), append(s.checks, c), append(s.results, store.Result{})
		}
	}
}

// release gives the call back for reuse. It keeps nothing of the request.
func (s *storeCall) release() {
	clear(s.checks)
	s.which, s.checks, s.results = s.which[:0], s.checks[:0], s.results[:0]
	storeCalls.Put(s)
}

// denied reports whether an enforced check did not fit.
func (s *storeCall) denied() bool {
	for i := range s.results {
		if !s.results[i].Allowed && (!s.checks[i].Shadow || s.results[i].Unknown) {
			return true
		}
	}
	return false
}
