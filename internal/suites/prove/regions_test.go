package prove

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/regions"
)

// place is where a process is, if it is in one of two regions.
type place struct {
	Region         string
	AtHome         bool   // all limits are decided there, or else by the region
	Network, Other string // the Redis that decides nothing: of the region or of home
}

// over returns the store of the region over the one that decides.
func (p *place) over(decides store.Store) (store.Store, error) {
	local, home := decides, store.Store(redisstore.New(redis.NewClient(&redis.Options{Network: p.Network, Addr: p.Other})))
	if p.AtHome {
		local, home = home, local
	}
	return regions.New(local, home, regions.Config{Region: p.Region, Regions: 2})
}

// declare says how the limits of a job count over regions, until the function that it returns is called.
func (p *place) declare(rules []*store.Rule, stores ...store.Store) (end func(), err error) {
	mode := store.RegionsEach
	if p.AtHome {
		mode = store.RegionsHome
	}
	var declarations []store.Declaration
	for _, r := range rules {
		declarations = append(declarations, store.Declaration{Rule: *r, Named: true, Regions: store.Regions{Mode: mode}})
	}
	ends := []func(){}
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	for _, s := range stores {
		if err := s.Registry().Replace(nil, declarations); err != nil {
			end()
			return nil, err
		}
		ends = append(ends, func() { _ = s.Registry().Replace(declarations, nil) }) // which nothing can refuse
	}
	return end, nil
}

// Limits that home decides are those of one limiter, whichever regions ask; and so are those that a region decides by itself, for
// all processes of the region. What leased units add to a region is no history of one limiter: internal/suites/regions
// adds up what all regions were granted.
func TestRegions(t *testing.T) {
	decides, other, another := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	in := func(region string, atHome bool, local *redistest.Server) order {
		return order{Network: decides.Network(), Addr: decides.Addr(), Place: &place{region, atHome, local.Network(), local.Addr()}}
	}
	kinds := map[string][]*process{
		"home": startEach(t, []order{in("eu", true, other), in("us", true, another), in("eu", true, other), in("us", true, another)}),
		"each": startEach(t, slices.Repeat([]order{in("eu", false, other)}, processesOf)),
	}
	each(t, 0.05, func(seed uint64, _ *tally) *history {
		mode := []string{"home", "each"}[seed%2]
		h := newHistory("regions-"+mode, seed, short...)
		together(t, h, kinds[mode])
		return h
	})
}
