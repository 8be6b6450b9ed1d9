package core

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Tiers chooses the numbers for each request, such as those of the client's
// plan: quota, window, burst, algorithm and jitter of the limit that f returns.
// Name, key, cost and all else stay. The zero Limit means the limit's own
// numbers, and so does one that can never work, which is logged as [AdviceTier].
//
// What a client has used stays used when its tier changes, up to the new burst:
// with 60 of 100 used, a raise to 200 leaves 140, a cut to 70 leaves 10, and a
// cut to 50 leaves 0. That holds across algorithms too, but a tier of a
// [Concurrent] limit has to be one itself, and no other may be.
//
// The function runs on every request, maybe on many at once, and must not block.
func (l Limit) Tiers(f func(keyfuncs.Request) Limit) Limit {
	l.tiers = f
	return l
}

// tiers brings the numbers that a limit's Tiers function returns to rules. An
// application has a handful of tiers: their rules are made once and kept.
type tiers struct {
	choose func(keyfuncs.Request) Limit
	base   *Rule
	cost   int64 // of a request: a tier has to hold that much
	advise func(Advice, string)

	// known is never written to: a tier is added to a copy. A sync.Map would
	// allocate its key for each request.
	known  atomic.Pointer[map[numbers]*Rule]
	adding sync.Mutex
	full   atomic.Bool // a tier came that there was no room for
}

// maxTiers bounds what is kept for a function that makes up numbers as it goes;
// beyond it rules are made anew for each request.
const maxTiers = 1024

// rule returns the numbers for a request.
func (t *tiers) rule(r keyfuncs.Request) *Rule {
	l := t.choose(r)
	if l.numbers.Algorithm == 0 {
		return t.base
	}
	n := l.numbers
	n.Once, n.Repeats, n.hasRepeats = t.base.Once, t.base.Repeats, false // they stay
	n.Block, n.hasPenalty = t.base.Block, t.base.Penalized()
	if known := t.known.Load(); known != nil {
		if rule, ok := (*known)[n]; ok {
			return rule
		}
	}
	// And nothing else of l, which might be wrong and does not count.
	l = Limit{name: t.base.Name, cost: t.cost, numbers: n, wait: t.base.Wait}
	rule, err := l.Rule()
	if err == nil && (rule.Algorithm == store.Concurrency) != (t.base.Algorithm == store.Concurrency) {
		err = fmt.Errorf("weblimit: limit %q: a tier counts requests at the same time if the limit does, and only then", l.name)
	}
	if err != nil {
		t.advise(AdviceTier, unprefixed(err))
		rule = *t.base
	}
	if t.full.Load() {
		return &rule
	}
	return t.add(n, &rule)
}

// add keeps the rule of a tier if there is room, and returns the one to use:
// another request may have been first.
func (t *tiers) add(n numbers, rule *Rule) *Rule {
	t.adding.Lock()
	defer t.adding.Unlock()
	known := make(map[numbers]*Rule)
	if before := t.known.Load(); before != nil {
		if first, ok := (*before)[n]; ok {
			return first
		}
		if len(*before) >= maxTiers {
			t.full.Store(true)
			return rule
		}
		maps.Copy(known, *before)
	}
	known[n] = rule
	t.known.Store(&known)
	return rule
}
