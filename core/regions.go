package core

import (
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/core/store"
)

// RegionMode is where a limit is decided on a store of several regions: see [Limit.Regions].
type RegionMode = store.RegionMode

const (
	// Leased has each region decide by itself, within the units that it has leased from home. All regions together
	// admit the limit once.
	Leased = store.RegionsLeased
	// InEachRegion gives each region the whole limit for itself. A client that spreads its requests over the regions
	// gets the limit once per region.
	InEachRegion = store.RegionsEach
	// AtHome has home decide each request, which takes a round trip to there. While home does not answer, the limit
	// decides as [Limit.OnOutage] says. It is for few and valuable requests, such as logins, codes and payments.
	AtHome = store.RegionsHome
)

// Regions says where the limit is decided on a store of several regions, that of package regions. Defaults to [Leased].
//
// Not every limit can be leased: concurrency limits and sliding logs can't, nor can those with [Limit.FromFirstUse], [Limit.Penalty],
// [Limit.OncePer], or a queue ([Limit.LeakyBucket], or [Limit.Wait] on a token bucket). On such a
// store they are an error until another mode is chosen. Nor does a leased limit remember the operations of the service's
// calls, which are then refused.
//
// A store without regions refuses all modes but Leased, which is then no difference: the mode would do nothing there. A
// [Fallback] store without regions counts the limiter's own limits as one region does.
func (l Limit) Regions(mode RegionMode) Limit {
	l.settings.set(setRegions)
	l.regions.Mode = mode
	return l
}

// Overdraft lets each region grant n units of a [Leased] limit in each period beyond those that it has leased, without
// asking home: from 0 to the quota. All regions together then admit at most the quota and n units for each of them, also
// while they can't reach each other. A period is the window, and for a token bucket that of its leases: see package
// regions. A higher overdraft denies less while home is away or units are on their way, and admits more than the limit
// in return. For tiers and scaled limits it is the same number. With [Limit.KeepFree] it is for the upper class. Defaults
// to 0.
//
// Another mode has no overdraft, and a store without regions refuses one.
func (l Limit) Overdraft(n int64) Limit {
	l.settings.set(setOverdraft)
	l.regions.Overdraft = n
	return l
}

// validateRegions checks Regions and Overdraft.
func (l *Limit) validateRegions() error {
	switch r := &l.regions; {
	case r.Mode > AtHome:
		return fmt.Errorf("unknown mode of Regions %d", r.Mode)
	case r.Overdraft < 0 || r.Overdraft > max(l.numbers.Quota, 0):
		return fmt.Errorf("the overdraft must be from 0 to the quota of %d, got %d", l.numbers.Quota, r.Overdraft)
	case l.settings.has(setOverdraft) && r.Mode != Leased:
		return fmt.Errorf("Overdraft belongs to a leased limit: with the mode %q of Regions no units are leased", r.Mode)
	}
	return nil
}

// leaseOn notes whether the limit is leased on a store. before are the limits before it.
func (l *limit) leaseOn(on *store.Registry, before []limit) error {
	l.leased = l.regions.Mode == Leased && on.InRegions()
	if l.leased && l.tiers != nil {
		l.tiers.leased = true
	}
	switch n := len(before); {
	case l.choice == 0 || !on.InRegions():
	case l.leased:
		return store.AtLimit(l.rule.Name, errors.New("a limit in First can't be leased to regions, since one call decides which one pays: choose InEachRegion or AtHome for all limits in it"))
	case n > 0 && before[n-1].choice == l.choice && before[n-1].regions.Mode != l.regions.Mode:
		return store.AtLimit(l.rule.Name, errors.New("all limits in First are decided in one place: choose one of the modes of Regions for all of them"))
	}
	return nil
}

// regionsOn returns how a limiter's own limit counts on the store of Config.Fallback: as on its own store, or if that
// one has no regions, as there is one.
func (l *limit) regionsOn(standIn *store.Registry) store.Regions {
	if !standIn.InRegions() {
		return store.Regions{}
	}
	return l.regions
}
