package core

import (
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

	known  sync.Map // of tierNumbers to *Rule
	shares sync.Map // of such a *Rule to the *Rule of one process in an outage
	count  atomic.Int64
}

// tierNumbers is what a tier takes of a Limit.
type tierNumbers struct {
	quota, window, burst int64
	algorithm            Algorithm
	hasBurst, jitter     bool
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
	n := tierNumbers{l.quota, int64(l.window), l.burst, l.algorithm, l.hasBurst, l.jitter}
	if known, ok := t.known.Load(n); ok {
		return known.(*Rule)
	}
	l = Limit{ // and nothing else of l, which might be wrong and does not count
		name: t.base.Name, cost: t.cost,
		quota: l.quota, window: l.window, burst: l.burst, hasBurst: l.hasBurst, algorithm: l.algorithm, jitter: l.jitter,
	}
	rule, err := l.Rule()
	if err != nil {
		t.advise(AdviceTier, unprefixed(err))
		rule = *t.base
	}
	if t.count.Add(1) <= maxTiers {
		t.known.Store(n, &rule)
	}
	return &rule
}

// share returns the part of a tier's rule that one of n processes grants in an outage.
func (t *tiers) share(of *Rule, n int) *Rule {
	if known, ok := t.shares.Load(of); ok {
		return known.(*Rule)
	}
	share := of.share(n, t.cost)
	if t.count.Load() <= maxTiers { // else rules are made for each request, and so are their shares
		t.shares.Store(of, &share)
	}
	return &share
}
