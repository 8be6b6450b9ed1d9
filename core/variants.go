package core

import (
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// variants caches the rules that are derived from a limit's own rule and from those
// of its tiers: scaled ones, those of the lower classes of KeepFree and Classes, those without the
// penalty or the queue, and one replica's shares. It is safe for concurrent use.
type variants struct {
	of    sync.Map // of *Rule to *variant
	count atomic.Int64
}

// scaleSteps is to how many steps the factors of Scale functions are rounded.
const scaleSteps = 20

// variant holds the rules that are derived from one rule.
type variant struct {
	scaled      [scaleSteps]atomic.Pointer[Rule]     // by step, from 1
	lower       [maxClasses - 1]atomic.Pointer[Rule] // of the classes below the highest
	unpenalized atomic.Pointer[Rule]
	unqueued    atomic.Pointer[Rule]
	repeatable  atomic.Pointer[Rule] // with operations that are remembered
	share       atomic.Pointer[Rule]
}

// maxVariants bounds the cache, in rules: a Tiers function may make up new numbers
// for each request. Beyond it, rules are derived anew for each request.
const maxVariants = 1 << 14

// get returns the cached variants of a rule.
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

// loadOrMake returns the cached rule, making it first if needed. Concurrent callers
// get the same one.
func loadOrMake(cached *atomic.Pointer[Rule], derive func() Rule) *Rule {
	if rule := cached.Load(); rule != nil {
		return rule
	}
	rule := derive()
	if cached.CompareAndSwap(nil, &rule) {
		return &rule
	}
	return cached.Load()
}

// derive returns r with the numbers n, which are r's made smaller. A smaller quota can
// share fewer divisors with the window, so that its rate is too large to count exactly
// in lowest terms. Then the quota is rounded up to one that shares as many. If that
// can't be counted either, derive returns r.
func derive(r *Rule, n store.Numbers) Rule {
	common := int64(1)
	if r.Algorithm != store.Calendar {
		common = integer.GCD(r.Quota, r.Window.Microseconds())
	}
	if r.Algorithm != store.TokenBucket { // they hold their quota, and nothing else
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
