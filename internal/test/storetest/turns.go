package storetest

import (
	"time"

	"github.com/weblimit/weblimit/core"
)

// turnComes uses rates whose time per unit is no whole number of microseconds, because
// there rounding errors of a wait would show.
func turnComes(r *rig) {
	for _, limit := range []core.Limit{
		core.PerSecond(3), core.PerSecond(7), core.PerSecond(30), core.PerSecond(300), core.PerSecond(300_007), core.PerMinute(11), core.PerDay(100_003),
	} {
		for _, burst := range []int64{1, 2, 5} {
			rule := rule(r, limit.LeakyBucket(time.Minute).Burst(burst).Named("line"))
			key := describe(rule)
			for round := range 4 {
				for range burst {
					if at := r.turn(rule, key); at != 0 {
						r.Errorf("%s: in round %d a request with nobody in front waits %v", key, round, at)
					}
				}
				at := r.turn(rule, key)
				if pace := limitPace(rule); at <= 0 || at > pace {
					r.Errorf("%s: in round %d the first that has to wait does so for %v, want up to %v", key, round, at, pace)
				}
				r.Advance(time.Duration(burst+1) * limitPace(rule))
			}
			r.reset(rule, key)
			// One by one, each at the time that it was told.
			for range 20 {
				if wait := r.turn(rule, key); wait > limitPace(rule) {
					r.Errorf("%s: at its turn a request waits %v", key, wait)
				} else {
					r.Advance(max(wait, limitPace(rule)))
				}
			}
		}
	}
}

// turn takes one unit and returns how long the request then waits.
func (r *rig) turn(rule *core.Rule, key string) time.Duration {
	r.Helper()
	taken := core.LimitResult{Rule: rule, Result: r.take(rule, key, 1)}
	if !taken.Charged {
		r.Fatalf("%s: got %s, want it charged", key, show(taken.Result))
	}
	return taken.Delay()
}

// limitPace returns the time from one turn to the next, rounded up to whole ticks.
func limitPace(rule *core.Rule) time.Duration {
	scale := rule.Integers()
	ticks := (scale.Unit + scale.Rate - 1) / scale.Rate
	return time.Duration(ticks*scale.Tick) * time.Microsecond
}
