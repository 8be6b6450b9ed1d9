package core

import (
	"fmt"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// guarding returns the limit for handlers, which give its key and cost themselves. It returns an
// error for a limit with something that would have no effect there.
func (l Limit) guarding() (Limit, error) {
	unused, unsettled := "", ""
	switch {
	case len(l.keys) > 0:
		unused = "By"
	case l.missing != ShareBucket:
		unused = "OnMissingKey"
	case l.settings.has(setCost | setCostBy):
		unused = "Cost"
	case len(l.when) > 0:
		unused = "When"
	case l.tiers != nil:
		unused = "Tiers"
	case l.settings.has(setKeepFree):
		unused = "KeepFree"
	case l.classes != nil:
		unused = "Classes"
	case l.fair != nil:
		unused = "Fair"
	case l.hasOnce:
		unused = "OncePer"
	case l.estimate:
		unsettled = "Estimate"
	case l.refundOn != nil:
		unsettled = "RefundOn"
	case l.numbers.Algorithm == store.Concurrency:
		unsettled = "Concurrent"
	}
	switch {
	case unused != "":
		return l, store.AtLimit(l.name, fmt.Errorf("%s has no effect in a handler, which says itself when a limit is asked, for which key and at which cost", unused))
	case unsettled != "":
		return l, store.AtLimit(l.name, fmt.Errorf("%s needs to know when the request ends, which a guard in a handler does not: use it in middleware, or call AllowKey and then Settle of the decision", unsettled))
	}
	return l.By(givenKey), nil
}

// givenKey is the key of limits whose key a handler gives: no request has one.
var givenKey = keyfuncs.Custom("given", func(keyfuncs.Request) string { return "" })

// guardingAll returns limits for handlers.
func guardingAll(limits []Limit) ([]Limit, error) {
	all := make([]Limit, len(limits))
	for i, limit := range limits {
		guarding, err := limit.guarding()
		if err != nil {
			return nil, err
		}
		all[i] = guarding
	}
	return all, nil
}

// decideGuard is AllowKey for a handler of an adapter: a request that Config.Bypass lets through
// asks no store, and observers see the request.
func (l *Limiter) decideGuard(adapter string, r keyfuncs.Request, key string, cost int64) (d Decision) {
	l = l.now()
	d.limiter, d.binding = l, -1
	var c *call
	switch {
	case cost < 0:
		d.Reason = ReasonInvalidCost
	case len(l.bypass) > 0 && l.bypasses(r):
		d.Allowed, d.Reason = true, ReasonBypassed
	default:
		ctx := r.Context()
		c = l.callFor(ctx, key, cost)
		defer c.release()
		l.decide(ctx, c, subject{key: key, cost: cost}, &d)
	}
	l.final(subject{request: r, adapter: adapter}, c, &d)
	return d
}
