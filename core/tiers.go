package core

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Tiers chooses the numbers for each request, such as those of the client's plan. It
// takes quota, window, burst, algorithm, jitter, first use and soft limit from the limit that f
// returns, and the debt if it has one. Name, key, cost and everything else stay. The zero Limit stands for the
// limit's own numbers. So does a tier that can never work, which is logged as
// advice WL006. One that holds less than a request costs is logged as well, and denies the
// request: the limit's own numbers may be a larger plan's.
//
// What a client has used stays used when its tier changes, up to the new burst: with
// 60 of 100 used, a raise to 200 leaves 140, a cut to 70 leaves 10, and a cut to 50
// leaves 0 and forgets none of the 60. That holds when the algorithm changes, too. The tiers of a [Concurrent]
// limit must be concurrency limits, and no other limit's may be.
//
// f is called for each request, concurrently, and must be fast. Have it read headers by
// [keyfuncs.HeaderOf]: a request with a second line of one is then denied with status 400.
func (l Limit) Tiers(f func(keyfuncs.Request) Limit) Limit {
	l.settings.setTo(setTiers, f == nil)
	l.tiers = f
	return l
}

// tiers turns the limits that a Tiers function returns into rules. An application has
// a handful of tiers, whose rules are made once and cached. It is safe for concurrent
// use.
type tiers struct {
	choose func(keyfuncs.Request) Limit
	base   *Rule // of the limit itself
	cost   int64 // of a request; a tier that can't hold it denies
	advice *advice.Limit
	leased bool // regions lease the limit's units

	// known is copied to add a tier, and the map itself never changes. A sync.Map
	// would allocate its key for each request.
	known  atomic.Pointer[map[numbers]*Rule]
	adding sync.Mutex
	full   atomic.Bool // maxTiers is reached
}

// maxTiers bounds the cache: a Tiers function may make up new numbers for each
// request. Beyond it, rules are made anew for each request.
const maxTiers = 1024

// rule returns the rule for a request.
func (t *tiers) rule(r keyfuncs.Request) *Rule {
	l := t.choose(r)
	if l.numbers.Algorithm == 0 {
		return t.base
	}
	n := l.numbers
	n.Once, n.Repeats, n.hasRepeats = t.base.Once, t.base.Repeats, false // these stay the limit's
	if !n.HasDebt {
		n.Debt, n.HasDebt = t.base.Debt, t.base.HasDebt
	}
	n.Block, n.hasPenalty = t.base.Block, t.base.Penalized()
	if known := t.known.Load(); known != nil {
		if rule, ok := (*known)[n]; ok {
			return rule
		}
	}
	// Everything else of l is ignored, so it must not be checked.
	l = Limit{name: t.base.Name, cost: 1, numbers: n, wait: t.base.Wait}
	rule, err := l.Rule()
	if err == nil && (rule.Algorithm == store.Concurrency) != (t.base.Algorithm == store.Concurrency) {
		err = store.AtLimit(l.name, errors.New("a tier must be a concurrency limit if the limit is one, and only then"))
	}
	if err == nil && t.leased && (rule.Algorithm == store.SlidingLog || rule.FromUse) {
		err = store.AtLimit(l.name, errors.New("a tier of a limit that is leased to regions can't be a sliding log, nor begin with first use"))
	}
	switch {
	case err != nil:
		t.advice.TierFails(store.Reason(err))
		rule = *t.base
	case t.cost > rule.Burst:
		t.advice.TierTooSmall(t.cost, rule.Burst)
	}
	if t.full.Load() {
		return &rule
	}
	return t.add(n, &rule)
}

// add caches the rule of a tier if there is room, and returns the rule to use: that of
// another request if it was first.
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
