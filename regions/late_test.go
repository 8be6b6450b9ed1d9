package regions_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// late is a region's store that calls reach late.
type late struct {
	core.Store
	by   atomic.Int64 // nanoseconds
	only atomic.Bool  // those that spend a share, and no others
}

func (l *late) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	if !l.only.Load() || strings.Contains(checks[0].Rule.Name, "/spend/") {
		time.Sleep(time.Duration(l.by.Load()))
	}
	return l.Store.Take(ctx, checks, results)
}

// A request that reaches the region's store after the end of its window spends nothing of the share of that window.
func TestARequestThatIsLateSpendsNothingOfTheWindowBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		local := &late{Store: memstore.New()}
		s := must.Get(regions.New(local, memstore.New(), regions.Config{Region: "eu", Regions: 3}))(t)
		l := must.Get(core.New(core.Config{Store: s, Timeout: 10 * time.Second, Limits: []core.Limit{core.PerMinute(900).FixedWindow().By(keyfuncs.Everyone())}}))(t)
		settle() // home was new
		end := time.Now().Truncate(time.Minute).Add(time.Minute)
		for time.Until(end) > 200*time.Millisecond { // so that something is leased until the end
			ask(t, l, 1)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Until(end) - 10*time.Millisecond)
		local.by.Store(int64(20 * time.Millisecond))
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() { granted.Add(int64(ask(t, l, 1))) })
		}
		wg.Wait()
		local.by.Store(0)
		granted.Add(int64(ask(t, l, 900)))
		check.Equal(t, "granted in the window after", granted.Load(), 840)
		settle()
	})
}

// A lease that home has charged to another window than the region's goes back, and nothing of it is granted.
func TestALeaseOfAnotherWindowGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, time.Millisecond)
		w.links[0].Store = off{w.home, 30 * time.Second}
		l := w.limiters(t, core.PerMinute(2000).FixedWindow().By(keyfuncs.Everyone()))[0]
		time.Sleep(35 * time.Second) // home is in the next window already
		check.Equal(t, "granted", ask(t, l, 500), 100)
		check.Equal(t, "leased", w.regions[0].Stats().Leased, 0)
		settle()
	})
}

// A request that is late each time it is sent is denied in the end, and charged nothing.
func TestARequestThatIsAlwaysLateIsDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		local := &late{Store: memstore.New()}
		s := must.Get(regions.New(local, memstore.New(), regions.Config{Region: "eu", Regions: 3}))(t)
		rule := must.Get(core.PerMinute(900).FixedWindow().Rule())(t)
		results := make([]core.Result, 1)
		take := func(cost int64) core.Result {
			must.OK(t, s.Take(t.Context(), []core.Check{{Key: []byte("client"), Rule: &rule, Cost: cost}}, results))
			return results[0]
		}
		take(100)
		time.Sleep(10 * time.Second) // home was new
		check.Equal(t, "in time", take(100).Allowed, true)
		for range 31 { // the floor is used up, so that the next request asks for the share at once
			take(1)
		}
		local.only.Store(true)
		local.by.Store(int64(time.Minute))
		r := take(100)
		check.All(t, "late each time", []any{r.Allowed, r.Charged}, false, false)
		settle()
	})
}
