package memstore_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/testclock"
)

// Of two requests at once, one may read the clock first and come to the bucket second.
// It must not be denied what has drained in between: both units are there.
func TestARequestThatIsOvertakenIsNotDenied(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]core.Limit{
		"one limit": {core.PerDay(2).Named("a")},
		"several":   {core.PerDay(2).Named("a"), core.PerDay(1000).Named("b")},
		"penalty":   {core.PerDay(2).Named("a").Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour})},
	} {
		for how, enter := range map[string]func(*memstore.Store, []core.Check, []core.Result) error{
			"a request":              func(m *memstore.Store, c []core.Check, r []core.Result) error { return m.Take(t.Context(), c, r) },
			"a charge, not yet made": func(m *memstore.Store, c []core.Check, r []core.Result) error { return m.Charge(t.Context(), c, r) },
		} {
			t.Run(name+" behind "+how, func(t *testing.T) {
				t.Parallel()
				var checks []core.Check
				for _, l := range limits {
					checks = append(checks, core.Check{Key: []byte("k"), Rule: mustRule(t, l), Cost: 1})
				}
				m, clock := memstore.New(), storetest.NewClock()
				overtaken := false
				testclock.Set(m, func() int64 {
					now := clock.Micros()
					if !overtaken {
						overtaken = true
						overtake(t, clock, func() error { return enter(m, checks, make([]core.Result, len(checks))) })
					}
					return now
				})
				results := make([]core.Result, len(checks))
				must.OK(t, m.Take(t.Context(), checks, results))
				if !results[0].Allowed || results[0].Remaining != 0 {
					t.Errorf("the request that was overtaken got %+v, want it allowed and nothing left", results[0])
				}
			})
		}
	}
}

// overtake has another request come 20 µs later and be done first. In a store that read
// its clock under the lock it could not, and would come second.
func overtake(t *testing.T, clock *storetest.Clock, enter func() error) {
	t.Helper()
	clock.Advance(20 * time.Microsecond)
	done := make(chan struct{})
	go func() {
		defer close(done)
		check.OK(t, enter())
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second): // for a busy machine
	}
}
