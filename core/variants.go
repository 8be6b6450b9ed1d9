package core

import (
	"sync"
	"sync/atomic"
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
