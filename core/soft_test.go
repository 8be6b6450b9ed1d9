package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestSoftLimit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"bucket": everyone(10), "window": everyone(10).FixedWindow(), "month": core.PerMonth(10, time.UTC).By(keyfuncs.Everyone()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limiterAt(t, limit.Soft(7).WarnAt(0.5))
			for n := 1; n <= 12; n++ {
				d := l.Allow(&request{})
				if over := n > 7 && n <= 10; d.Allowed != (n <= 10) || d.OverSoft() != over || d.Results()[0].Soft != over {
					t.Errorf("request %d: allowed=%v soft=%v", n, d.Allowed, d.OverSoft())
				}
				want := map[int]string{7: `approaching limit; policy="default"; used=70%`, 8: `over soft limit; policy="default"; used=80%`, 11: ""}
				if header, ok := want[n]; ok && warningHeader(d) != header {
					t.Errorf("request %d: header %q, want %q", n, warningHeader(d), header)
				}
			}
		})
	}
}

func TestSoftLimitsThatCanNotWork(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{-1, 0, 10, 11} {
		if _, err := everyone(10).Soft(n).Rule(); err == nil || !strings.Contains(err.Error(), "soft limit must be at least 1 and below the 10 units") {
			t.Errorf("Soft(%d): error %v", n, err)
		}
	}
	if _, err := everyone(10).Burst(20).Soft(15).Rule(); err != nil {
		t.Errorf("a soft limit below the burst: %v", err)
	}
}

func TestSoftLimitIsOfTheTier(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(10).Soft(1).CostBy(costing).Tiers(plan))
	for _, tt := range []struct {
		tier core.Limit
		soft bool
	}{{core.Limit{}, true}, {core.PerHour(100).Soft(50), false}, {core.PerHour(100).Soft(3), true}, {core.PerHour(100), false}, {core.PerHour(100).Soft(200), true}} {
		d := l.Allow(on(tt.tier, 2))
		check.Equal(t, "allowed, and over the soft limit", [2]bool{d.Allowed, d.OverSoft()}, [2]bool{true, tt.soft})
	}
}

// A shadow limit does not show that it is over its soft limit.
func TestSoftLimitInShadow(t *testing.T) {
	t.Parallel()
	d := limiterAt(t, everyone(10).Soft(1).Cost(3).Shadow()).Allow(&request{})
	check.All(t, "the decision, its result and the header", []any{d.OverSoft(), d.Results()[0].Soft, warningHeader(d)}, false, true, "")
}

// Calendar windows warn at 80, 90 and 100 % if OnWarning is set.
func TestCalendarWarnings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		limit core.Limit
		costs []int64
		want  []float64
	}{
		{"by default", core.PerMonth(10, time.UTC), []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, []float64{0.8, 0.9, 1}},
		{"all at once, the lowest first", core.PerMonth(10, time.UTC), []int64{10}, []float64{0.8, 0.9, 1}},
		{"none is none", core.PerMonth(10, time.UTC).WarnAt(), []int64{10}, nil},
		{"levels of one's own", core.PerCalendarDay(10, time.UTC).WarnAt(0.5), []int64{4, 1, 5}, []float64{0.5}},
		{"other windows have none", core.PerHour(10).FixedWindow(), []int64{10}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, clock := at()
			var events warnings
			l := newLimiter(t, core.Config{Store: store, Limits: []core.Limit{tt.limit.By(keyfuncs.Everyone()).CostBy(costing)}, OnWarning: events.add})
			for range 2 { // periods
				for _, cost := range tt.costs {
					l.Allow(on(core.Limit{}, cost))
				}
				got := events.take()
				must.Equal(t, "events", len(got), len(tt.want))
				for i := range got {
					check.Equal(t, fmt.Sprintf("the level of event %d", i), got[i].Level, tt.want[i])
				}
				clock.Advance(32 * 24 * time.Hour)
			}
		})
	}
}

// A refund brings the count below a level, and the next charge above it again.
func TestCalendarWarningsOnceDespiteResets(t *testing.T) {
	t.Parallel()
	store, clock := at()
	var events warnings
	l := newLimiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerMonth(10, time.UTC).By(keyfuncs.Everyone())}, OnWarning: events.add})
	for range 3 {
		l.AllowKey(t.Context(), "user:42", 8)
		must.OK(t, l.Reset(t.Context(), "user:42"))
		clock.Advance(4 * 24 * time.Hour)
	}
	check.Equal(t, "events within a month", len(events.take()), 1)
}
