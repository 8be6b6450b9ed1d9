package regions_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

func TestConfigurationsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	local, home := memstore.New(), memstore.New()
	for _, tt := range []struct {
		of   string
		c    regions.Config
		says string
	}{
		{"no region", regions.Config{Regions: 3}, "Config.Region must be"},
		{"a name that no metric could have", regions.Config{Region: "eu west", Regions: 3}, "Config.Region must be"},
		{"one region", regions.Config{Region: "eu", Regions: 1}, "Config.Regions must be"},
		{"too many regions", regions.Config{Region: "eu", Regions: 65}, "Config.Regions must be"},
		{"nothing but floors", regions.Config{Region: "eu", Regions: 3, Floor: 91}, "Config.Floor must be"},
		{"a negative floor", regions.Config{Region: "eu", Regions: 3, Floor: -1}, "Config.Floor must be"},
		{"waiting for ever", regions.Config{Region: "eu", Regions: 3, Wait: time.Hour}, "Config.Wait must be"},
		{"no time for home", regions.Config{Region: "eu", Regions: 3, HomeTimeout: time.Millisecond}, "Config.HomeTimeout must be"},
		{"no keys", regions.Config{Region: "eu", Regions: 3, MaxKeys: 1}, "Config.MaxKeys must be"},
	} {
		_, err := regions.New(local, home, tt.c)
		check.Fails(t, tt.of, err, tt.says)
	}
	_, err := regions.New(nil, home, regions.Config{Region: "eu", Regions: 3})
	check.Fails(t, "no store", err, "a store is nil")
	var none *memstore.Store
	_, err = regions.New(local, none, regions.Config{Region: "eu", Regions: 3})
	check.Fails(t, "a nil store", err, "is a nil *memstore.Store")
}

// What can't be leased is refused when a limiter is made, with what to choose instead.
func TestLimitsThatCannotBeLeased(t *testing.T) {
	t.Parallel()
	everyone := keyfuncs.Everyone()
	for name, l := range map[string]core.Limit{
		"a sliding log":                       core.PerMinute(10).SlidingLog(),
		"a window that begins with first use": core.PerMinute(10).FromFirstUse(),
		"a concurrency":                       core.Concurrent(10),
		"a limit with a penalty":              core.PerMinute(10).Penalty(core.Block{After: 3, Within: time.Minute, For: time.Minute}),
		"a limit with OncePer":                core.PerMinute(10).OncePer(keyfuncs.Header("Idempotency-Key"), time.Minute),
		"a limit in which requests wait":      core.PerMinute(10).LeakyBucket(time.Second),
	} {
		s := must.Get(regions.New(memstore.New(), memstore.New(), regions.Config{Region: "eu", Regions: 3}))(t)
		_, err := core.New(core.Config{Store: s, Limits: []core.Limit{l.By(everyone).Named("odd")}})
		check.Fails(t, name, err, name)
	}
	local := memstore.New()
	books.Add(local.Registry(), func() books.Stats { return books.Stats{} })
	s := must.Get(regions.New(local, memstore.New(), regions.Config{Region: "eu", Regions: 3}))(t)
	_, err := core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMonth(10, time.UTC).By(everyone)}})
	check.Fails(t, "a limit that a book keeps", err, "a book keeps the calendar limits")
	check.OK(t, s.Registry().Register(store.Declaration{Rule: must.Get(core.PerMonth(10, time.UTC).Rule())(t), Regions: store.Regions{Mode: store.RegionsEach}}))
}

// A limiter that is refused changes nothing for the limits that there are.
func TestARefusedLimiterChangesNothing(t *testing.T) {
	t.Parallel()
	s := must.Get(regions.New(memstore.New(), memstore.New(), regions.Config{Region: "eu", Regions: 3}))(t)
	per := func(n int64) core.Limit {
		return core.PerMinute(n).FixedWindow().By(keyfuncs.Everyone()).Named("api")
	}
	l := must.Get(core.New(core.Config{Store: s, Limits: []core.Limit{per(10).Regions(core.InEachRegion)}}))(t)
	_, err := core.New(core.Config{Store: s, Limits: []core.Limit{per(10).Regions(core.AtHome)}})
	check.Fails(t, "the same limit at home", err, "regions each and home")
	for range 10 {
		check.Equal(t, "allowed here", l.AllowKey(t.Context(), "client", 1).Allowed, true)
	}
	check.Equal(t, "one more", l.AllowKey(t.Context(), "client", 1).Allowed, false)
}
