package core

import (
	"sync"

	"github.com/weblimit/weblimit/keyfuncs"
)

// call is the working memory of one decision.
type call struct {
	keys    []byte
	limits  []*limit
	checks  []Check
	results []Result
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) add(l *limit, rule *Rule, key []byte, cost int64) {
	c.limits = append(c.limits, l)
	c.checks = append(c.checks, Check{Key: key, Rule: rule, Cost: cost, Shadow: l.shadow})
	c.results = append(c.results, Result{})
}

// release returns c for reuse, and with it no key longer than keys usually are.
func (c *call) release() {
	if cap(c.keys) > 4096 {
		c.keys = nil
	}
	c.keys = c.keys[:0]
	c.reset()
	calls.Put(c)
}

// reset forgets the checks, and keeps the keys. What the first of them points to
// is left for the next call to replace, since most calls have no other: clearing
// it would take longer than the check took to write.
func (c *call) reset() {
	if len(c.checks) > 1 {
		clear(c.checks[1:])
		clear(c.limits[1:])
	}
	c.limits, c.checks, c.results = c.limits[:0], c.checks[:0], c.results[:0]
}

// ask adds the check of a limit, if it applies to the request. It returns a
// reason to deny the request without asking the store, or ReasonUndecided.
func (c *call) ask(limit *limit, r keyfuncs.Request) Reason {
	for i := range limit.when {
		if !limit.when[i].Match(r) {
			return ReasonUndecided
		}
	}
	start := len(c.keys)
	keys, ok := limit.key.Append(c.keys, r)
	if !ok {
		switch {
		case limit.missing == ShareBucket:
			keys = append(keys, missingKey...)
		case limit.missing == DenyRequest && !limit.shadow:
			return ReasonMissingKey
		default:
			return ReasonUndecided
		}
	}
	c.keys = keys
	rule, cost := &limit.rule, limit.cost
	if limit.tiers != nil {
		rule = limit.tiers.rule(r)
	}
	if limit.scaling != nil {
		rule = limit.scaleNow(r.Context(), rule)
	}
	if limit.reserve != nil && !limit.reserve.all.Match(r) {
		rule = limit.lower(rule)
	}
	if limit.costBy != nil {
		if cost = limit.costBy(r); cost < 0 {
			if limit.shadow {
				return ReasonUndecided
			}
			return ReasonInvalidCost
		}
	}
	c.add(limit, rule, keys[start:len(keys):len(keys)], cost)
	return ReasonUndecided
}

// missingKey is the bucket of requests that lack the key. No key function makes
// such a key, nor does AllowKey: theirs are printable.
const missingKey = "missing\x00"
