package regions_test

import (
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/regions"
)

// Limits that each region has for itself count as on the region's store alone, those of books included.
func TestLimitsOfEachRegionCountAsOnItsStore(t *testing.T) {
	t.Parallel()
	storetest.RunRandom(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		local := memstore.New()
		testclock.Set(local, clock.Micros)
		s := must.Get(regions.New(local, memstore.New(), regions.Config{Region: "eu", Regions: 2}))(t)
		regions.Usually(s, store.RegionsEach)
		return s
	})
}
