package inspect

import (
	"cmp"
	"slices"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/internal/pageapi"
)

// regionsOf returns the regions of a store, as this process sees them.
func regionsOf(r *store.Registry) (all []pageapi.Region) {
	for _, s := range regional.Sum(regional.All(r)) {
		region := pageapi.Region{Region: s.Region, TripMS: s.Home.Trip.Milliseconds(), Keys: s.Keys, Limits: []pageapi.Leased{}}
		if !s.Home.Away.IsZero() {
			region.HomeAway = &pageapi.Outage{Since: s.Home.Away, Class: string(s.Home.Class)}
		}
		for limit, c := range s.Limits {
			region.Limits = append(region.Limits, pageapi.Leased{
				Limit: limit, Messages: c.Messages, Failed: c.Failed, Leased: c.Leased, Spent: c.Spent, Lost: c.Lost, Returned: c.Skewed,
				Waited: c.Waited, DeniedEarly: c.Early,
			})
		}
		slices.SortFunc(region.Limits, func(a, b pageapi.Leased) int {
			return cmp.Or(cmp.Compare(b.DeniedEarly, a.DeniedEarly), cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Limit, b.Limit))
		})
		all = append(all, region)
	}
	return all
}

// mostAsking returns regions with no more limits than an overview has.
func mostAsking(all []pageapi.Region) []pageapi.Region {
	all = slices.Clone(all)
	for i := range all {
		r := &all[i]
		shown := min(len(r.Limits), overviewLimits)
		r.Limits, r.More = r.Limits[:shown], int64(len(r.Limits)-shown)
	}
	return all
}
