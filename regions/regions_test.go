package regions_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// link is the way to a store on another continent.
type link struct {
	store.Store
	oneWay time.Duration
	cut    atomic.Bool // nothing arrives
	lost   atomic.Bool // answers don't arrive
	asked  atomic.Int64
}

var errCut = errors.New("the link is cut")

func (l *link) cross(ctx context.Context, gone bool) error {
	if gone {
		<-ctx.Done()
		return errCut
	}
	select {
	case <-time.After(l.oneWay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	l.asked.Add(1)
	if err := l.cross(ctx, l.cut.Load()); err != nil {
		return err
	}
	if err := l.Store.Take(ctx, checks, results); err != nil {
		return err
	}
	return l.cross(ctx, l.lost.Load())
}

// world is several regions around one home.
type world struct {
	home    *memstore.Store
	links   []*link
	locals  []*memstore.Store
	regions []*regions.Store
}

func newWorld(t *testing.T, n int, oneWay time.Duration) *world {
	t.Helper()
	w := &world{home: memstore.New()}
	for i := range n {
		l, local := &link{Store: w.home, oneWay: oneWay}, memstore.New()
		w.links, w.locals = append(w.links, l), append(w.locals, local)
		w.regions = append(w.regions, must.Get(regions.New(local, l, regions.Config{Region: fmt.Sprint("r", i), Regions: n}))(t))
	}
	return w
}

// limiters returns a limiter for each region, with enough time to wait for home.
func (w *world) limiters(t *testing.T, limits ...core.Limit) (all []*core.Limiter) {
	t.Helper()
	for _, s := range w.regions {
		all = append(all, must.Get(core.New(core.Config{Store: s, Limits: limits, Timeout: time.Second}))(t))
	}
	return all
}

var algorithms = map[string]core.Limit{
	"token bucket":   core.PerMinute(1000),
	"fixed window":   core.PerMinute(1000).FixedWindow(),
	"sliding window": core.PerMinute(1000).SlidingWindow(),
	"calendar":       core.PerCalendarDay(1000, time.UTC),
	"jitter":         core.PerMinute(1000).FixedWindow().Jitter(),
}

// Whoever spreads requests over the regions gets the quota once; whoever stays in one gets all of it but the floors of
// the others.
func TestTheQuotaHoldsOverAllRegions(t *testing.T) {
	t.Parallel()
	for name, limit := range algorithms {
		for _, only := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, one region only: %v", name, only), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 3, 40*time.Millisecond)
					limiters := w.limiters(t, limit.By(keyfuncs.Everyone()))
					granted, began := 0, time.Now()
					for i := range 3000 {
						l := limiters[0]
						if !only {
							l = limiters[i%3]
						}
						d := l.AllowKey(t.Context(), "client", 1)
						if d.Allowed {
							granted++
						}
						check.OK(t, d.Err)
						time.Sleep(time.Millisecond / 2)
					}
					most, least := 1000, 1000
					if name == "token bucket" {
						most += int(1000 * time.Since(began) / time.Minute)
					}
					if only {
						least -= 66
					}
					time.Sleep(time.Minute) // for what is on its way
					t.Logf("granted %d; %+v", granted, w.regions[0].Stats())
					if granted > most || granted < least {
						t.Errorf("granted %d, want %d to %d", granted, least, most)
					}
				})
			})
		}
	}
}
