package core

import (
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// variants keeps the rules that are made of a limit's rules, its own and those of
// its tiers: scaled ones, those of the lower class, those without the penalty, and
// the shares of one process.
type variants struct {
	of    sync.Map // of *Rule to *variant
	count atomic.Int64
}

// variant is what was made of one rule.
type variant struct {
	scaled [scaleSteps]atomic.Pointer[Rule] // by step, from 1
	lower  atomic.Pointer[Rule]
	plain  atomic.Pointer[Rule] // without the penalty
	share  atomic.Pointer[Rule]
}

// maxVariants bounds of how many rules there are variants: a Tiers function may
// make up numbers as it goes. Beyond it they are made for each request.
const maxVariants = 1 << 14

// get returns where the variants of a rule are kept.
func (v *variants) get(of *Rule) *variant {
	if known, ok := v.of.Load(of); ok {
		return known.(*variant)
	}
	if v.count.Load() >= maxVariants {
		return new(variant)
	}
	known, before := v.of.LoadOrStore(of, new(variant))
	if !before {
		v.count.Add(1)
	}
	return known.(*variant)
}

// made returns the rule at a place, or the one that is made for it now: of several
// requests that make it at once, one's is kept.
func made(at *atomic.Pointer[Rule], of func() Rule) *Rule {
	if rule := at.Load(); rule != nil {
		return rule
	}
	rule := of()
	if at.CompareAndSwap(nil, &rule) {
		return &rule
	}
	return at.Load()
}

// derive returns the rule of other numbers that were made of r's. A smaller quota can
// have fewer divisors in common with the window, and be too odd to count exactly: then
// it is rounded up to one that has as many; and if that can't be counted either, r is
// what there is.
func derive(r *Rule, n store.Numbers) Rule {
	common := int64(1)
	if r.Algorithm != store.Calendar {
		common = integer.GCD(r.Quota, r.Window.Microseconds())
	}
	if r.Algorithm != store.TokenBucket { // whose quota is all that they hold
		n.Quota = max(n.Burst, n.Whole)
	}
	for _, quota := range []int64{n.Quota, integer.CeilDiv(n.Quota, common) * common} {
		n.Quota = quota
		if derived, err := store.NewRule(r.Name, n); err == nil {
			return derived
		}
	}
	return *r
}
