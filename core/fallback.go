package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Fallback is what decides while a store does not answer, for limits whose
// outage policy is [Local]. Its zero value is the default: the limits
// themselves, in this process, divided by Config.Replicas.
type Fallback struct {
	// Store decides instead: another Redis, say. The limits apply to it whole,
	// for it is shared as the first one is. While it does not answer either,
	// this process decides. Its blocks, of a [Limit.Penalty], are its own.
	// Defaults to none.
	Store Store

	// Limits apply instead of the limiter's own: stricter ones, as a rule, or
	// fewer. A process without Store gives each of them whole, and not divided
	// by Replicas. Their own outage policies are not read; shadow ones are only
	// judged. Defaults to the limiter's own.
	Limits []Limit
}

// fallback is a Fallback made ready.
type fallback struct {
	store   Store
	instead *standIn // of the store; nil if there is none
	limits  []limit
}

func (l *Limiter) prepareFallback(from Fallback) error {
	if from.Store == nil && len(from.Limits) == 0 {
		return nil
	}
	if from.Store != nil && from.Store.Registry() == nil {
		return errors.New("weblimit: Config.Fallback: the store's Registry is nil")
	}
	if from.Store == l.store || from.Store != nil && from.Store.Registry() == l.instead.Registry {
		return errors.New("weblimit: Config.Fallback: the store can't stand in for itself")
	}
	if len(from.Limits) > store.MaxChecks {
		return fmt.Errorf("weblimit: Config.Fallback has %d limits, the most is %d", len(from.Limits), store.MaxChecks)
	}
	f := &fallback{store: from.Store, limits: make([]limit, len(from.Limits))}
	declarations := make([]store.Declaration, 0, len(from.Limits)+len(l.limits))
	for i := range from.Limits {
		to := &f.limits[i]
		if err := l.prepare(to, from.Limits[i], 1); err != nil {
			return fmt.Errorf("weblimit: Config.Fallback: %s", unprefixed(err))
		}
		for j := range i {
			if f.limits[j].rule.Name == to.rule.Name {
				return fmt.Errorf("weblimit: Config.Fallback: two limits are called %q; give each its own name with Named", to.rule.Name)
			}
		}
		declarations = append(declarations, store.Declaration{Rule: to.rule, Keys: to.kind(), Named: from.Limits[i].named})
	}
	if n := checksOf(f.limits); n > store.MaxChecks {
		return fmt.Errorf("weblimit: Config.Fallback counts for %d limits, with each OncePer and each Penalty for another: the most is %d", n, store.MaxChecks)
	}
	if len(f.limits) == 0 {
		for i := range l.limits {
			if l.limits[i].outage == Local {
				declarations = append(declarations, store.Declaration{Rule: l.limits[i].rule, Keys: l.limits[i].kind(), Named: true})
			}
		}
	}
	if f.store != nil {
		f.instead = standInFor(f.store)
		if err := f.store.Registry().Register(declarations...); err != nil {
			return fmt.Errorf("weblimit: Config.Fallback: %s", unprefixed(err))
		}
	}
	l.fallback = f
	return nil
}

// ask adds the checks of the fallback's limits. It returns why a request is to
// be denied without asking any store, and by which limit, or ReasonUndecided.
func (f *fallback) ask(c *call, s subject) (Reason, *limit) {
	if s.request == nil {
		c.keys = keyfuncs.AppendKey(c.keys, s.key)
	}
	for i := range f.limits {
		limit := &f.limits[i]
		if s.request == nil {
			c.add(limit, limit.ruleWithoutRequest(context.Background()), c.keys, s.cost)
		} else if reason := c.ask(limit, s.request); reason != ReasonUndecided {
			return reason, limit
		}
	}
	return ReasonUndecided, nil
}
