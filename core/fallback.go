package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Fallback decides while the store does not answer, for limits whose outage action is
// [Local]. Its zero value is the default: the limits themselves, in this process, divided by
// Config.Replicas.
type Fallback struct {
	// Store decides instead, such as another Redis. The limits are not divided for it, since
	// all processes share it. While it does not answer either, this process decides.
	// Blocks of a [Limit.Penalty] in one store are unknown to the other. Defaults to none.
	Store Store

	// Limits apply instead of the limiter's own, and are usually stricter or fewer. Without
	// Store each process grants them whole, not divided by Replicas. Their outage actions
	// are ignored, and those in shadow mode are only judged. Defaults to the limiter's own.
	Limits []Limit
}

// errNoRegions is for limits of a Fallback without a store.
var errNoRegions = errors.New("Regions and Overdraft are for a store of several regions, and here this process decides")

// fallback is a Fallback made ready.
type fallback struct {
	store  Store
	shared *shared // by the limiters of store; nil if there is none
	limits []limit
}

func (l *Limiter) prepareFallback(from Fallback) error {
	if from.Store == nil && len(from.Limits) == 0 {
		return nil
	}
	if from.Store != nil && from.Store.Registry() == nil {
		return errors.New("weblimit: Config.Fallback: the store's Registry is nil")
	}
	if from.Store == l.store || from.Store != nil && from.Store.Registry().Root() == l.shared.Registry {
		return errors.New("weblimit: Config.Fallback: the store can't stand in for itself")
	}
	if len(from.Limits) > store.MaxChecks {
		return fmt.Errorf("weblimit: Config.Fallback has %d limits, the most is %d", len(from.Limits), store.MaxChecks)
	}
	f := &fallback{store: from.Store, limits: make([]limit, len(from.Limits))}
	all := make([]store.Declaration, 0, len(from.Limits))
	for i := range from.Limits {
		to := &f.limits[i]
		if err := l.prepare(to, from.Limits[i], 1); err != nil {
			return &store.ConfigError{Path: "Config.Fallback", Err: err}
		}
		if err := from.Limits[i].suitsStore(from.Store); err != nil {
			return &store.ConfigError{Path: "Config.Fallback", Err: err}
		}
		switch {
		case from.Store != nil:
			if err := to.leaseOn(from.Store.Registry(), f.limits[:i]); err != nil {
				return &store.ConfigError{Path: "Config.Fallback", Err: err}
			}
		case to.regions != store.Regions{}:
			return &store.ConfigError{Path: "Config.Fallback", Err: store.AtLimit(to.rule.Name, errNoRegions)}
		}
		for j := range i {
			if f.limits[j].rule.Name == to.rule.Name {
				return fmt.Errorf("weblimit: Config.Fallback: two limits are called %q; give each its own name with Named", to.rule.Name)
			}
		}
		all = append(all, store.Declaration{Rule: to.rule, Keys: to.kind(), Named: from.Limits[i].named, Regions: to.regions, Conceal: to.conceal()})
	}
	if n := checksOf(f.limits); n > store.MaxChecks {
		return fmt.Errorf("weblimit: Config.Fallback counts for %d limits, with each OncePer and each Penalty for another: the most is %d", n, store.MaxChecks)
	}
	if len(f.limits) == 0 {
		all = l.declaredOn(f.store.Registry())
	}
	if f.store != nil {
		f.shared = sharedBy(f.store)
		l.declared = append(l.declared, declarations{f.store.Registry(), all})
	}
	l.fallback = f
	return nil
}

// declaredOn returns what the store of Config.Fallback is told of the limiter's own limits.
func (l *Limiter) declaredOn(standIn *store.Registry) (all []store.Declaration) {
	for i := range l.limits {
		if of := &l.limits[i]; of.outage == Local {
			all = append(all, store.Declaration{Rule: of.rule, Keys: of.kind(), Named: true, Regions: of.regionsOn(standIn), Conceal: of.conceal()})
		}
	}
	return all
}

// ask adds the checks of the fallback's limits to c. It returns a reason to deny the request
// without asking a store, and the limit that it is for, or ReasonUndecided.
func (f *fallback) ask(c *call, s subject) (Reason, *limit) {
	if s.request == nil {
		c.keys = keyfuncs.AppendKey(c.keys, s.key)
	}
	for i := range f.limits {
		limit := &f.limits[i]
		if s.request == nil {
			rule := limit.ruleWithoutRequest(context.Background())
			c.add(limit, rule, c.keys, limit.capped(s.cost, rule))
		} else if reason := c.ask(limit, s.request, s.batch); reason != ReasonUndecided {
			return reason, limit
		}
	}
	for i := range c.checks {
		if s.batch {
			c.checks[i].Cost = s.cost
		}
	}
	return ReasonUndecided, nil
}
