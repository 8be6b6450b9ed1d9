package prefetchsim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/prefetchsim"
)

// limitsOf returns limits of a quota per second.
func limitsOf(quota int64) map[string]core.Limit {
	return map[string]core.Limit{
		"token bucket":      core.PerSecond(quota),
		"large bucket":      core.Per(quota, time.Second).Burst(4 * quota),
		"small bucket":      core.Per(quota, time.Second).Burst(quota / 10),
		"fixed window":      core.PerSecond(quota).FixedWindow(),
		"long fixed window": core.Per(4*quota, 4*time.Second).FixedWindow(),
		"sliding window":    core.PerSecond(quota).SlidingWindow(),
	}
}

// The measured values never exceed the stated bounds, however many instances there
// are and whatever happens to them.
func TestBounds(t *testing.T) {
	t.Parallel()
	loads, duration := long.Rounds([]float64{1.5}, []float64{0.7, 1.5}), long.Rounds(2*time.Second, 6*time.Second)
	for name, limit := range limitsOf(long.Rounds[int64](4_000, 10_000)) {
		for _, instances := range []int{1, 10, 100, 1000} {
			for _, load := range loads {
				t.Run(fmt.Sprintf("%s, %d instances, load %v", name, instances, load), func(t *testing.T) {
					t.Parallel()
					for _, of := range []struct {
						fraction float64
						maxAge   time.Duration
						phase    time.Duration
					}{{0.02, 100 * time.Millisecond, time.Second}, {0.3, time.Second, time.Second}, {0.3, time.Second, 100 * time.Millisecond}} {
						o := must.Get(prefetchsim.Run(prefetchsim.Config{
							Limit: limit, Instances: instances, Fraction: of.fraction, MaxAge: of.maxAge, Load: load, Phase: of.phase,
							Duration: duration, Loss: time.Second, Skew: 10 * time.Minute, Drift: 0.0009,
							Delay: 5 * time.Millisecond, Seed: uint64(instances),
						}))(t)
						t.Logf("%+v: %+v", of, o)
						if o.Over > o.OverBound {
							t.Errorf("%d units above the limit, stated: at most %d", o.Over, o.OverBound)
						}
						if o.Held > o.HeldBound {
							t.Errorf("%d units held at once, stated: at most %d", o.Held, o.HeldBound)
						}
						if o.Broken > 0 {
							t.Errorf("%d requests were denied while more units were free than prefetched or lost", o.Broken)
						}
					}
				})
			}
		}
	}
}

func TestASimulationIsDeterminedByItsConfig(t *testing.T) {
	t.Parallel()
	config := prefetchsim.Config{
		Limit: core.PerSecond(10_000), Instances: 10, Fraction: 0.1, MaxAge: 100 * time.Millisecond, Load: 1, Phase: 300 * time.Millisecond,
		Duration: 2 * time.Second, Loss: time.Second, Skew: time.Minute, Drift: 0.0005, Delay: 5 * time.Millisecond, Seed: 7,
	}
	first := must.Get(prefetchsim.Run(config))(t)
	second := must.Get(prefetchsim.Run(config))(t)
	if first != second || first.Held == 0 || first.Granted < 2*first.Calls {
		t.Errorf("got %+v and %+v, want the same twice, and few calls", first, second)
	}
}
