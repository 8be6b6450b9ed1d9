package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// What the README says of each algorithm: the most that passes within any window, for a
// client that has been idle, begins just before the edge of a window and takes all it can.
func TestTheMostThatPassesWithinAnyWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		limit       core.Limit
		window      time.Duration
		least, most int
	}{
		{"the first example, in 49 seconds", core.PerMinute(5), 49 * time.Second, 9, 9},
		{"the first example", core.PerMinute(5), time.Minute, 9, 10},
		{"a token bucket", core.PerSecond(60), time.Second, 119, 120},
		{"a token bucket with a burst", core.PerSecond(60).Burst(120), time.Second, 179, 180},
		{"a fixed window", core.PerDay(1000).FixedWindow(), 24 * time.Hour, 2000, 2000},
		{"a sliding window", core.PerMinute(300).SlidingWindow(), time.Minute, 590, 600},
		{"a sliding log", core.Per(5, 15*time.Minute).SlidingLog(), 15 * time.Minute, 5, 5},
		{"the first example as a sliding log", core.PerMinute(5).SlidingLog(), time.Minute, 5, 5},
		{"a leaky bucket", core.PerSecond(10).Burst(1), time.Second, 10, 11}, // a queue adds nothing
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, clock := at()
			step := tt.window / 1000
			clock.Set(time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC).Add(-step)) // the edge of every window
			l := limiterOn(t, store, tt.limit.By(keyfuncs.Everyone()))
			var passed []int64
			for range 3000 {
				for l.AllowKey(t.Context(), "k", 1).Allowed {
					passed = append(passed, clock.Micros())
				}
				clock.Advance(step)
			}
			most := 0
			for i, from := range passed {
				end, _ := slices.BinarySearch(passed, from+tt.window.Microseconds())
				most = max(most, end-i)
			}
			if most < tt.least || most > tt.most {
				t.Errorf("%d passed, want %d to %d", most, tt.least, tt.most)
			}
		})
	}
}
