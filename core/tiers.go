package core

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/keyfuncs"
)

// tiers brings the numbers that a limit's Tiers function returns to rules. An
// application has a handful of tiers: their rules are made once and kept.
type tiers struct {
	choose func(keyfuncs.Request) Limit
	base   *Rule
	cost   int64 // of a request: a tier has to hold that much
	advise func(Advice, string)

	// known is never written to: a tier is added to a copy. A sync.Map would
	// allocate its key for each request.
	known  atomic.Pointer[map[tierNumbers]*Rule]
	adding sync.Mutex
	full   atomic.Bool // a tier came that there was no room for
}

// tierNumbers is what a tier takes of a Limit.
type tierNumbers struct {
	quota, window, burst int64
	soft                 int64
	algorithm            Algorithm
	period               periodKind
	hasBurst, hasSoft    bool
	concurrent, hasLease bool
	jitter               bool
}

// maxTiers bounds what is kept for a function that makes up numbers as it goes;
// beyond it rules are made anew for each request.
const maxTiers = 1024

// rule returns the numbers for a request.
func (t *tiers) rule(r keyfuncs.Request) *Rule {
	l := t.choose(r)
	if l.algorithm == 0 {
		return t.base
	}
	n := tierNumbers{
		quota: l.quota, window: int64(l.window), burst: l.burst, soft: l.soft, algorithm: l.algorithm, period: l.period,
		hasBurst: l.hasBurst, hasSoft: l.hasSoft, concurrent: l.concurrent, hasLease: l.hasLease, jitter: l.jitter,
	}
	if known := t.known.Load(); known != nil {
		if rule, ok := (*known)[n]; ok {
			return rule
		}
	}
	l = Limit{ // and nothing else of l, which might be wrong and does not count
		name: t.base.Name, cost: t.cost,
		quota: l.quota, window: l.window, period: l.period, burst: l.burst, hasBurst: l.hasBurst, algorithm: l.algorithm, jitter: l.jitter,
		soft: l.soft, hasSoft: l.hasSoft,
		wait:       t.base.Wait,
		concurrent: l.concurrent, hasLease: l.hasLease,
	}
	if t.base.Penalized() {
		l.penalty = &t.base.block
	}
	rule, err := l.Rule()
	rule.once, rule.repeats = t.base.once, t.base.repeats
	if err == nil && (rule.Algorithm == Concurrency) != (t.base.Algorithm == Concurrency) {
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
func (t *tiers) add(n tierNumbers, rule *Rule) *Rule {
	t.adding.Lock()
	defer t.adding.Unlock()
	known := make(map[tierNumbers]*Rule)
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
