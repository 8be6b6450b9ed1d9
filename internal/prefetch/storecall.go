package prefetch

import (
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

// asked is what the store is asked of a request.
type asked struct {
	which   []int
	checks  []store.Check
	results []store.Result
}

var askedPool = sync.Pool{New: func() any { return new(asked) }}

func (a *asked) fill(checks []store.Check, parts []part) {
	for i := range parts {
		if parts[i].from == nil {
			c := checks[i]
			c.Cost += parts[i].slice
			a.which, a.checks, a.results = append(a.which, i), append(a.checks, c), append(a.results, store.Result{})
		}
	}
}

func (a *asked) release() {
	clear(a.checks)
	a.which, a.checks, a.results = a.which[:0], a.checks[:0], a.results[:0]
	askedPool.Put(a)
}

// refused reports whether an enforced check did not fit.
func (a *asked) refused() bool {
	for i := range a.results {
		if !a.results[i].Allowed && !a.checks[i].Shadow {
			return true
		}
	}
	return false
}
