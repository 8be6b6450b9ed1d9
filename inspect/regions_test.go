package inspect_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/internal/test/check"
)

// The overview has the limits that ask home most, and the list of limits has all.
func TestRegionsAreShown(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	var none pageapi.Overview
	in.must(t, "GET", "api/v1/overview", "", &none)
	check.Equal(t, "regions of another store", len(none.Regions), 0)

	in = start(t, memstore.New())
	began := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	stats := regional.Stats{
		Region: "eu", Keys: 3, Home: regional.Home{Away: began, Class: store.ClassTimeout, Trip: 80 * time.Millisecond},
		Limits: map[string]regional.Counts{"busy": {Messages: 4, Failed: 1, Leased: 100, Spent: 90, Lost: 2, Skewed: 5, Waited: 6, Early: 7}},
	}
	for i := range 70 {
		stats.Limits[fmt.Sprintf("quiet-%02d", i)] = regional.Counts{}
	}
	regional.Add(in.store.Registry(), func() regional.Stats { return stats })
	var o pageapi.Overview
	in.must(t, "GET", "api/v1/overview", "", &o)
	check.Equal(t, "regions", len(o.Regions), 1)
	r := &o.Regions[0]
	check.All(t, "the region", []any{r.Region, r.HomeAway.Since.Equal(began), r.HomeAway.Class, r.TripMS, r.Keys, len(r.Limits), r.More}, "eu", true, "timeout", 80, 3, 60, 11)
	check.Equal(t, "the limit that asks most", r.Limits[0], pageapi.Leased{
		Limit: "busy", Messages: 4, Failed: 1, Leased: 100, Spent: 90, Lost: 2, Returned: 5, Waited: 6, DeniedEarly: 7,
	})
	var l pageapi.Limits
	in.must(t, "GET", "api/v1/limits", "", &l)
	check.All(t, "in the list of limits", []any{len(l.Regions), len(l.Regions[0].Limits), l.Regions[0].More}, 1, 71, 0)
}
