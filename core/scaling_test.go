package core_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestScaleIsBoundedAndQuantized(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		factor := 0.5
		l := limiterOn(t, core.NewMemory(), everyone(1000).FixedWindow().Scale(func(context.Context) float64 { return factor }))
		for _, tt := range []struct {
			factor float64
			quota  int64
		}{
			{0.5, 500}, {1, 1000}, {2, 1000}, {math.Inf(1), 1000}, {0.33, 350}, {math.NaN(), 350}, {0.01, 50}, {0, 50}, {-3, 50}, {math.Inf(-1), 50}, {0.951, 950},
		} {
			factor = tt.factor
			d := l.AllowKey(t.Context(), "user:42", 0)
			b, _ := d.Binding()
			check.Equal(t, fmt.Sprintf("quota and burst at a factor of %v", tt.factor), [2]int64{b.Rule.Quota, b.Rule.Burst}, [2]int64{tt.quota, tt.quota})
			factor = 0.7 // which nobody asks for within the second
			time.Sleep(999 * time.Millisecond)
			d = l.Allow(&request{})
			b, _ = d.Binding()
			check.Equal(t, fmt.Sprintf("quota 999ms after %v", tt.factor), b.Rule.Quota, tt.quota)
			time.Sleep(time.Millisecond)
		}
	})
}

func TestScaleKeepsWhatWasUsed(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"window": everyone(100).FixedWindow(), "bucket": everyone(100), "sliding": everyone(100).SlidingWindow(),
		"log": everyone(100).SlidingLog(), "month": core.PerMonth(100, time.UTC).By(keyfuncs.Everyone()),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				factor := 1.0
				l := limiterAt(t, limit.CostBy(costing).Tiers(plan).Scale(func(context.Context) float64 { return factor }))
				wantDecision(t, "40 of 100", l.Allow(on(core.Limit{}, 40)), true, core.ReasonWithinLimit, 60)
				factor = 0.5
				time.Sleep(time.Second)
				d := l.Allow(on(core.Limit{}, 1))
				wantDecision(t, "41 of 50", d, true, core.ReasonWithinLimit, 9)
				b, _ := d.Binding()
				check.Equal(t, "burst", b.Rule.Burst, 50)
				wantDecision(t, "51 of 50", l.Allow(on(core.Limit{}, 10)), false, core.ReasonLimitExceeded, 9)
				wantDecision(t, "of a tier, 42 of 100", l.Allow(on(core.PerHour(200), 1)), true, core.ReasonWithinLimit, 58)
				factor = 1
				time.Sleep(time.Second)
				wantDecision(t, "43 of 100", l.Allow(on(core.Limit{}, 1)), true, core.ReasonWithinLimit, 57)
			})
		})
	}
}

func TestScaleLeavesRoomForTheCost(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{"bucket": everyone(10), "window": everyone(10).FixedWindow()} {
		l := limiterOn(t, core.NewMemory(), limit.Cost(8).Scale(func(context.Context) float64 { return 0.05 }))
		d := l.Allow(&request{})
		b, _ := d.Binding()
		check.All(t, name+": allowed, and the burst", []any{d.Allowed, b.Rule.Burst}, true, 8)
	}
}

// Odd numbers that can't be counted exactly when they are scaled are rounded.
func TestScaleOfOddNumbers(t *testing.T) {
	t.Parallel()
	for _, limit := range []core.Limit{core.Per(3_000_000_000, 31*24*time.Hour), core.PerSecond(300_000_007), core.Per(1<<51, time.Hour).FixedWindow()} {
		for step := 1; step < 20; step++ {
			l := limiterOn(t, core.NewMemory(), limit.By(keyfuncs.Everyone()).Scale(func(context.Context) float64 { return float64(step) / 20 }))
			d := l.AllowKey(t.Context(), "k", 0)
			b, _ := d.Binding()
			full := mustRule(t, limit).Burst
			if want := float64(full) / 20 * float64(step); math.Abs(float64(b.Rule.Burst)-want) > 1 {
				t.Errorf("%d/20 of %d is %d", step, full, b.Rule.Burst)
			}
		}
	}
}

// Requests never wait for a factor, and one of them at a time asks.
func TestScaleIsAskedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var asked, within atomic.Int32
		l := limiterOn(t, core.NewMemory(), everyone(1000).Scale(func(context.Context) float64 {
			asked.Add(1)
			if within.Add(1) > 1 {
				t.Error("the function is called twice at a time")
			}
			defer within.Add(-1)
			time.Sleep(3 * time.Second)
			return 0.5
		}))
		var group sync.WaitGroup
		var slow atomic.Int32
		for range 50 {
			group.Go(func() {
				start := time.Now()
				l.Allow(&request{})
				if time.Since(start) > 0 {
					slow.Add(1)
				}
			})
		}
		group.Wait()
		check.Equal(t, "calls of the function, and requests that waited", [2]int32{asked.Load(), slow.Load()}, [2]int32{1, 1})
	})
}

func TestScaleDuringAnOutage(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, core.Config{
		Store: newFlaky(true), Replicas: 4,
		Limits: []core.Limit{everyone(100).Scale(func(context.Context) float64 { return 0.4 })},
	})
	wantDecision(t, "a quarter of 40", l.Allow(&request{}), true, core.ReasonOutageLocal, 9)
}

func TestScaleHeaders(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), everyone(100).FixedWindow().Scale(func(context.Context) float64 { return 0.4 }))
	check.Equal(t, "the policy, that of the scaled limit", told(l.Allow(&request{})).Get("RateLimit-Policy"), `"default";q=40;w=3600`)
}
