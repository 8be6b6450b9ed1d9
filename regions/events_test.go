package regions_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// heard returns the events of a region that are heard from now on, as text.
func (w *world) heard(region int) *[]string {
	var all []string
	w.locals[region].OnEvent(func(e core.Event) {
		text := fmt.Sprintf("%s %s", e.Kind, e.Node)
		if e.Kind == regions.EventHomeAway {
			text += " " + string(e.Class)
		}
		if e.Kind == regions.EventWindowsDiffer {
			text += fmt.Sprintf(" %d %v", e.Count, e.Duration.Round(time.Second))
		}
		all = append(all, text)
	})
	return &all
}

// use asks a limiter for so many units, one each 100ms.
func use(ctx context.Context, l *core.Limiter, n int) {
	for range n {
		l.AllowKey(ctx, "client", 1)
		time.Sleep(100 * time.Millisecond)
	}
}

// A region that loses home says so once, also if many questions fail, and says when it is back.
func TestHomeGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 40*time.Millisecond)
		l := w.limiters(t, core.PerHour(600).FixedWindow().By(keyfuncs.Everyone()))[0]
		events := w.heard(0)
		use(t.Context(), l, 100)
		home := w.regions[0].Stats().Home
		check.All(t, "while home answers", []any{home.Away.IsZero(), home.Class, home.Trip, len(*events)}, true, "", 80*time.Millisecond, 0)
		w.links[0].cut.Store(true)
		use(t.Context(), l, 1000)
		home = w.regions[0].Stats().Home
		check.All(t, "while it does not", []any{home.Away.IsZero(), home.Class}, false, store.ClassUnknown)
		check.Slices(t, "events while home is away", *events, []string{"home away r0 unknown"})
		w.links[0].cut.Store(false)
		use(t.Context(), l, 100)
		check.Slices(t, "events", *events, []string{"home away r0 unknown", "home back r0"})
		home = w.regions[0].Stats().Home
		check.Equal(t, "since when home does not answer", home.Away, time.Time{})
		settle()
	})
}

// off is a store whose clock is off.
type off struct {
	store.Store
	by time.Duration
}

func (o off) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	err := o.Store.Take(ctx, checks, results)
	for i := range results {
		r := &results[i]
		end := r.At + r.ResetAfter.Microseconds()
		r.At += o.by.Microseconds()
		if r.At >= end { // in its next window
			end += time.Minute.Microseconds()
		}
		r.ResetAfter = time.Duration(end-r.At) * time.Microsecond
	}
	return err
}

// Clocks that are in different windows are reported at most once a minute, with how far they are apart. Those that are
// in different windows for a moment, since one of them has just begun, are not.
func TestClocksThatDifferAreReported(t *testing.T) {
	t.Parallel()
	for by, want := range map[time.Duration]string{0: "", 30 * time.Second: "windows differ r0 "} {
		t.Run(fmt.Sprint("by ", by), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, 40*time.Millisecond)
				w.links[0].Store = off{w.home, by}
				l := w.limiters(t, core.PerMinute(2000).FixedWindow().By(keyfuncs.Everyone()))[0]
				events := w.heard(0)
				time.Sleep(35 * time.Second) // of the window
				use(t.Context(), l, 200)
				switch {
				case want == "":
					check.Equal(t, "events", len(*events), 0)
				case len(*events) != 1 || !strings.HasPrefix((*events)[0], want) || !strings.HasSuffix((*events)[0], " 30s"):
					t.Errorf("events %q, want %q", *events, want)
				}
				use(t.Context(), l, 1000)
				if want != "" {
					check.Equal(t, "events within 100s", len(*events), 2)
				}
				settle()
			})
		})
	}
}

// Each leased limit is counted for itself, from 0 on, and who has the Registry of the region's store sees it.
func TestCountsAreByLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 40*time.Millisecond)
		hot := core.PerHour(100).FixedWindow().By(keyfuncs.Everyone()).Named("hot")
		limiters := w.limiters(t, hot)
		must.Do(core.New(core.Config{Store: w.regions[0], Limits: []core.Limit{core.PerHour(1000).By(keyfuncs.Everyone()).Named("cold")}}))(t)
		must.Do(core.New(core.Config{Store: w.locals[0], Limits: []core.Limit{core.PerHour(1000).By(keyfuncs.Everyone()).Named("local")}}))(t)
		use(t.Context(), limiters[0], 200)
		all := regional.All(w.locals[0].Registry())
		check.Equal(t, "regions of the store", len(all), 1)
		s := all[0]
		of := s.Limits["hot"]
		check.All(t, "numbers", []any{s.Region, s.Keys, len(s.Limits), s.Limits["cold"]}, "r0", 1, 2, regional.Counts{})
		check.Equal(t, "the sum", s.Counts, of)
		check.All(t, "spent and lost", []any{of.Spent, of.Leased, of.Lost, of.Skewed}, 90, 90, 0, 0)
		if of.Messages == 0 || of.Waited == 0 {
			t.Errorf("%+v, want messages, and requests that waited for them", of)
		}
		settle()
	})
}
