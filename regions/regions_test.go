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

	instead atomic.Pointer[memstore.Store] // that the link leads to by now
}

// end returns the store that the link leads to.
func (l *link) end() store.Store {
	if s := l.instead.Load(); s != nil {
		return s
	}
	return l.Store
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

func (l *link) pass(ctx context.Context, call func() error) error {
	l.asked.Add(1)
	if err := l.cross(ctx, l.cut.Load()); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return l.cross(ctx, l.lost.Load())
}

func (l *link) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	return l.pass(ctx, func() error { return l.end().Take(ctx, checks, results) })
}

func (l *link) Peek(ctx context.Context, checks []core.Check, results []core.Result) error {
	return l.pass(ctx, func() error { return l.end().Peek(ctx, checks, results) })
}

func (l *link) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	return l.pass(ctx, func() error { return l.end().Refund(ctx, checks, results) })
}

func (l *link) Charge(ctx context.Context, checks []core.Check, results []core.Result) error {
	return l.pass(ctx, func() error { return l.end().Charge(ctx, checks, results) })
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
	t.Cleanup(func() {
		for _, s := range w.regions { // else a bubble would have each of them look at home until the last window is over
			must.OK(t, s.Close())
		}
		time.Sleep(time.Minute)
	})
	return w
}

// limiters returns a limiter for each region, with enough time to wait for home.
func (w *world) limiters(t *testing.T, limits ...core.Limit) (all []*core.Limiter) {
	t.Helper()
	for _, s := range w.regions {
		all = append(all, must.Get(core.New(core.Config{Store: s, Limits: limits, Timeout: time.Second}))(t))
	}
	time.Sleep(time.Minute) // a home that is new only learns at first
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
					if name == "token bucket" { // home waits until some have come together
						least -= 50
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

// ask has a limiter decide n requests, and returns how many it allows.
func ask(t *testing.T, l *core.Limiter, n int) (allowed int) {
	t.Helper()
	for range n {
		d := l.AllowKey(t.Context(), "client", 1)
		check.OK(t, d.Err)
		if d.Allowed {
			allowed++
		}
	}
	return allowed
}

// settle waits until nothing is on its way any more.
func settle() { time.Sleep(time.Hour) }

// A region that is cut off grants its floor, and nothing more; when the link is back, it leases again.
func TestARegionThatIsCutOffLivesOnItsFloor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 40*time.Millisecond)
		limiters := w.limiters(t, core.PerHour(900).FixedWindow().By(keyfuncs.Everyone()))
		w.links[0].cut.Store(true)
		check.Equal(t, "granted while cut off", ask(t, limiters[0], 50), 30)
		check.Equal(t, "granted by another region", ask(t, limiters[1], 900), 840)
		w.links[0].cut.Store(false)
		settle() // the next window
		check.Equal(t, "granted afterwards", ask(t, limiters[0], 900), 840)
		settle()
	})
}

// Questions that arrive, and whose answers don't, take units once, however often they are asked.
func TestAnAnswerThatIsLostTakesUnitsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 40*time.Millisecond)
		limiters := w.limiters(t, core.PerHour(900).FixedWindow().By(keyfuncs.Everyone()))
		w.links[0].lost.Store(true)
		for range 20 {
			ask(t, limiters[0], 50)
			time.Sleep(2 * time.Second)
		}
		w.links[0].lost.Store(false)
		time.Sleep(5 * time.Second)
		granted := ask(t, limiters[1], 900) + ask(t, limiters[0], 900) + 30
		if granted < 900-30-28 || granted > 900 {
			t.Errorf("granted %d of 900, want all but the floor of the third region, and one lease", granted)
		}
		settle()
	})
}

// A home that was emptied learns what regions have leased before it leases again.
func TestAHomeThatIsEmptiedGivesNothingTwice(t *testing.T) {
	t.Parallel()
	for name, quiet := range map[string]bool{"the region that has leased goes on": false, "the region that has leased is quiet": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, 40*time.Millisecond)
				limiters := w.limiters(t, core.PerDay(900).FixedWindow().By(keyfuncs.Everyone()))
				granted := ask(t, limiters[0], 500)
				check.Equal(t, "granted at first", granted, 500)
				emptied := memstore.New()
				for _, l := range w.links {
					l.instead.Store(emptied)
				}
				if !quiet {
					granted += ask(t, limiters[0], 10)
				}
				granted += ask(t, limiters[1], 900)
				time.Sleep(20 * time.Second)
				granted += ask(t, limiters[1], 900) + ask(t, limiters[0], 900) + ask(t, limiters[2], 900)
				t.Logf("%+v", w.regions[0].Stats())
				if granted > 900 || granted < 860 {
					t.Errorf("granted %d of 900", granted)
				}
				settle()
			})
		})
	}
}

// A store that is closed does nothing in the background any more, and still decides.
func TestAClosedStoreLooksAtNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, time.Millisecond)
		l := w.limiters(t, core.PerDay(900).FixedWindow().By(keyfuncs.Everyone()))[0]
		check.Equal(t, "granted", ask(t, l, 100), 100)
		asked := w.links[0].asked.Load()
		time.Sleep(time.Minute)
		if looks := w.links[0].asked.Load() - asked; looks < 50 {
			t.Errorf("home was looked at %d times in a minute", looks)
		}
		check.OK(t, w.regions[0].Close())
		asked = w.links[0].asked.Load()
		time.Sleep(time.Minute)
		check.Equal(t, "looks after Close", w.links[0].asked.Load()-asked, 0)
		check.Equal(t, "granted after Close", ask(t, l, 900), 740)
		settle()
	})
}
