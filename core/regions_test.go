package core_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// inRegion returns the store of one of two regions, around a home.
func inRegion(t *testing.T, home core.Store) *regions.Store {
	t.Helper()
	return must.Get(regions.New(core.NewMemory(), home, regions.Config{Region: "eu", Regions: 2}))(t)
}

func TestRegionsAreValidated(t *testing.T) {
	t.Parallel()
	ten := core.PerHour(10)
	for name, tt := range map[string]struct {
		limit core.Limit
		want  string // "" for no error
	}{
		"leased":                           {ten.Regions(core.Leased), ""},
		"each":                             {ten.Regions(core.InEachRegion), ""},
		"home":                             {ten.Regions(core.AtHome), ""},
		"an unknown mode":                  {ten.Regions(3), "unknown mode of Regions 3"},
		"an overdraft of the quota":        {ten.Overdraft(10), ""},
		"none":                             {ten.Overdraft(0), ""},
		"less than none":                   {ten.Overdraft(-1), "the overdraft must be from 0 to the quota of 10, got -1"},
		"more than the quota":              {ten.Burst(100).Overdraft(11), "the overdraft must be from 0 to the quota of 10, got 11"},
		"an overdraft of a whole limit":    {ten.Regions(core.InEachRegion).Overdraft(1), `Overdraft belongs to a leased limit: with the mode "each" of Regions no units are leased`},
		"an overdraft of a limit at home":  {ten.Overdraft(1).Regions(core.AtHome), `Overdraft belongs to a leased limit: with the mode "home" of Regions no units are leased`},
		"an overdraft of nothing, at home": {ten.Overdraft(0).Regions(core.AtHome), `Overdraft belongs to a leased limit: with the mode "home" of Regions no units are leased`},
		"an overdraft of a leased one":     {ten.Regions(core.Leased).Overdraft(3), ""},
		"regions twice":                    {ten.Regions(core.AtHome).Regions(core.AtHome), "Regions: there twice, and the first would do nothing"},
		"overdraft twice":                  {ten.Overdraft(1).Overdraft(2), "Overdraft: there twice, and the first would do nothing"},
		"each, of a concurrency limit":     {core.Concurrent(2).Regions(core.InEachRegion), ""},
	} {
		_, err := tt.limit.Rule()
		switch {
		case tt.want == "":
			check.OK(t, err)
		case err == nil || err.Error() != `weblimit: limit "default": `+tt.want:
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

// What a store without regions could not do is an error, and not ignored.
func TestRegionsNeedAStoreOfRegions(t *testing.T) {
	t.Parallel()
	const want = `weblimit: limit "default": Regions and Overdraft are for a store of several regions, and this one is not: see package regions`
	for name, limit := range map[string]core.Limit{
		"each": everyone(10).Regions(core.InEachRegion), "home": everyone(10).Regions(core.AtHome), "overdraft": everyone(10).Overdraft(1),
	} {
		if _, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{limit}}); err == nil || err.Error() != want {
			t.Errorf("%s: got %v", name, err)
		}
		limiterOn(t, inRegion(t, core.NewMemory()), limit)
	}
	limiterOn(t, core.NewMemory(), everyone(10).Regions(core.Leased).Overdraft(0)) // it would change nothing
}

// Two limiters share a limit only if it counts over regions in the same way.
func TestASharedLimitHasOneMode(t *testing.T) {
	t.Parallel()
	s, shared := inRegion(t, core.NewMemory()), everyone(10).Named("shared")
	limiterOn(t, s, shared.Regions(core.AtHome))
	limiterOn(t, s, shared.Regions(core.AtHome))
	_, err := core.New(core.Config{Store: s, Limits: []core.Limit{shared.Overdraft(2)}})
	if err == nil || !strings.Contains(err.Error(), "regions home and leased, overdraft 2") {
		t.Errorf("got %v", err)
	}
}

// Each mode does what it says: the limits are of 10 units, and three are taken in one region, of two.
func TestModesOfRegions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit  core.Limit
		atHome int64 // units that are taken at home
	}{
		"each": {everyone(10).FixedWindow().Regions(core.InEachRegion), 0},
		"home": {everyone(10).FixedWindow().Regions(core.AtHome), 3},
	} {
		home := core.NewMemory()
		d := limiterOn(t, inRegion(t, home), tt.limit).AllowKey(t.Context(), "k", 3)
		wantDecision(t, name, d, true, core.ReasonWithinLimit, 7)
		probe := limiterOn(t, home, everyone(10).FixedWindow())
		check.Equal(t, name+": left at home", unitsLeft(t, probe, "k"), 10-tt.atHome)
	}
}

// away is a home that does not answer before it is back.
type away struct {
	core.Store
	back atomic.Bool
}

func (a *away) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	if a.back.Load() {
		return a.Store.Take(ctx, checks, results)
	}
	<-ctx.Done()
	return errors.New("home is away")
}

// While home is away, a leased limit has its floor and its overdraft, one that is decided there goes by its outage
// action, and one of each region does not notice.
func TestHomeIsAway(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit   core.Limit
		granted int
	}{
		"leased":         {everyone(100), 5}, // a tenth, in two regions
		"with overdraft": {everyone(100).Overdraft(20), 25},
		"each":           {everyone(100).Regions(core.InEachRegion), 100},
		"home, denied":   {everyone(100).Regions(core.AtHome).OnOutage(core.Deny), 0},
		"home, allowed":  {everyone(100).Regions(core.AtHome).OnOutage(core.Allow), 120},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				home := &away{Store: core.NewMemory()}
				l, granted := limiterOn(t, inRegion(t, home), tt.limit.FixedWindow()), 0
				for range 120 {
					if d := l.AllowKey(t.Context(), "k", 1); d.Allowed {
						granted++
					}
				}
				check.Equal(t, "granted", granted, tt.granted)
				home.back.Store(true)
				time.Sleep(2 * time.Hour) // the region looks after home until the window is over
			})
		})
	}
}

// What can't be leased is an error, or for a tier, of which the store is not told, the limit itself.
func TestLimitsThatRegionsCanNotLease(t *testing.T) {
	t.Parallel()
	s := inRegion(t, core.NewMemory())
	for name, limit := range map[string]core.Limit{
		"SlidingLog":  everyone(10).SlidingLog(),
		"Concurrent":  forAll(core.Concurrent(2)),
		"Penalty":     everyone(10).Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}),
		"OncePer":     everyone(10).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour),
		"LeakyBucket": everyone(10).LeakyBucket(time.Second),
	} {
		_, err := core.New(core.Config{Store: s, Limits: []core.Limit{limit}})
		if err == nil || !strings.Contains(err.Error(), "can't be leased to regions") {
			t.Errorf("%s: got %v", name, err)
		}
		limiterOn(t, s, limit.Named("each-"+name).Regions(core.InEachRegion))
		limiterOn(t, s, limit.Named("home-"+name).Regions(core.AtHome))
	}
	for name, tt := range map[string]struct {
		mode core.RegionMode
		want store.Algorithm
	}{"leased": {core.Leased, store.FixedWindow}, "whole": {core.InEachRegion, store.SlidingLog}} {
		l := limiterOn(t, s, everyone(100).FixedWindow().Named("tiers-"+name).Regions(tt.mode).
			Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(200).SlidingLog() }))
		d := l.Allow(get(1))
		b, _ := d.Binding()
		check.All(t, name+": a tier that is a log", []any{d.Allowed, b.Rule.Algorithm}, true, tt.want)
	}
}

// A fallback counts the limiter's own limits as its store can, and limits of its own only as they say.
func TestRegionsOfAFallback(t *testing.T) {
	t.Parallel()
	atHome := everyone(10).Regions(core.AtHome)
	for name, tt := range map[string]struct {
		limit    core.Limit
		fallback core.Fallback
		want     string // "" for no error
		declared store.Regions
	}{
		"own limits, no regions":       {atHome, core.Fallback{Store: core.NewMemory()}, "", store.Regions{}},
		"own limits, regions":          {atHome, core.Fallback{Store: inRegion(t, core.NewMemory())}, "", store.Regions{Mode: core.AtHome}},
		"further limits, no regions":   {atHome, core.Fallback{Store: core.NewMemory(), Limits: []core.Limit{everyone(5).Overdraft(1)}}, "Config.Fallback: limit \"default\": Regions and Overdraft are for a store of several regions", store.Regions{}},
		"further limits, regions":      {atHome, core.Fallback{Store: inRegion(t, core.NewMemory()), Limits: []core.Limit{everyone(5).Overdraft(1)}}, "", store.Regions{Overdraft: 1}},
		"further limits, no store":     {atHome, core.Fallback{Limits: []core.Limit{everyone(5).Overdraft(1)}}, "Config.Fallback: limit \"default\": Regions and Overdraft are for a store of several regions, and here this process decides", store.Regions{}},
		"further limits of no regions": {atHome, core.Fallback{Limits: []core.Limit{everyone(5)}}, "", store.Regions{}},
	} {
		_, err := core.New(core.Config{Store: inRegion(t, core.NewMemory()), Limits: []core.Limit{tt.limit}, Fallback: tt.fallback})
		switch {
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v", name, err)
		case tt.want == "":
			check.OK(t, err)
			if tt.fallback.Store != nil {
				d, _ := tt.fallback.Store.Registry().Declared("default")
				check.Equal(t, name+": declared", d.Regions, tt.declared)
			}
		}
	}
}
