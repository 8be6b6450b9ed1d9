package core

import (
	"slices"

	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/keyfuncs"
)

// look shows one of the first requests, and how it was decided, to the advisor. It is called once, after the decision
// and before anybody hears of it. c has the checks; it is nil if no limit was asked.
func (l *Limiter) look(r keyfuncs.Request, c *call, d *Decision) {
	before := decisionIn(r)
	seen := advice.Seen{Request: r, Twice: before != nil && before != d && before.limiter == l}
	if c != nil {
		c.found = l.keysFound(c.found[:0], c, d)
		seen.Keys = c.found
	}
	l.advisor.Look(seen)
}

// keysFound appends which limits have found their keys in a request.
func (l *Limiter) keysFound(found []advice.Key, c *call, d *Decision) []advice.Key {
	switch d.Reason {
	case ReasonMissingKey, ReasonAmbiguousKey, ReasonInvalidCost: // further limits were not asked
		return found
	}
	if l.remote != nil && d.Err == nil { // its limits are for outages, and somebody else has decided
		return found
	}
	for i := range l.limits {
		found = append(found, l.keyFound(&l.limits[i], c, d))
	}
	return found
}

func (l *Limiter) keyFound(limit *limit, c *call, d *Decision) advice.Key {
	var key []byte
	if at := slices.Index(c.limits, limit); at >= 0 {
		key = c.checks[at].Key
	} else if l.direct != nil && d.count == 1 {
		key = c.keys
	}
	switch {
	case string(key) == missingKey:
		return advice.Lacked
	case key != nil:
		return advice.Found
	case slices.ContainsFunc(c.refused, func(refused refusal) bool { return refused.limit == limit }):
		return advice.Refused
	default:
		return advice.NotChecked
	}
}
