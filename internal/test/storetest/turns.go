package storetest

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
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
					check.Equal(r, fmt.Sprintf("%s: in round %d a request with nobody in front waits", key, round), r.turn(rule, key), 0)
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

// turnsExact compares each turn with its definition on exact fractions: not before all that is queued
// has drained down to the burst, and in the first tick after that.
func turnsExact(r *rig) {
	random := rand.New(rand.NewPCG(5, 7))
	queued := 0
	for n := range 60 {
		window := pick(random, []time.Duration{time.Second, 3 * time.Second, time.Minute, time.Hour})
		rule := rule(r, core.Per(1+random.Int64N(1000), window).LeakyBucket(10*time.Minute).Burst(1+random.Int64N(5)).Named(fmt.Sprint("line", n)))
		rate, debt := modelRate(rule), new(big.Rat)
		for range 20 {
			passed := random.Int64N(2*window.Microseconds()/rule.Quota + 1)
			r.Advance(time.Duration(passed) * time.Microsecond)
			if debt.Sub(debt, new(big.Rat).Mul(rate, big.NewRat(passed, 1))); debt.Sign() < 0 {
				debt.SetInt64(0)
			}
			got := r.take(rule, "k", 1)
			if !got.Charged {
				continue
			}
			debt.Add(debt, big.NewRat(1, 1))
			want := int64(0)
			if over := new(big.Rat).Sub(debt, big.NewRat(rule.Burst, 1)); over.Sign() > 0 {
				want = ceilRat(over.Quo(over, rate)).Int64()
				queued++
			}
			if got.Turn != time.Duration(want)*time.Microsecond {
				r.Fatalf("%s: a request has its turn after %v, want %d µs", describe(rule), got.Turn, want)
			}
		}
	}
	if queued < 300 {
		r.Errorf("only %d requests were queued", queued)
	}
}

// turn takes one unit and returns how long the request then waits.
func (r *rig) turn(rule *core.Rule, key string) time.Duration {
	r.Helper()
	taken := core.LimitResult{Rule: rule, Result: r.take(rule, key, 1)}
	if !taken.Charged {
		r.Fatalf("%s: got %s, want it charged", key, show(taken.Result))
	}
	return taken.Turn
}

// limitPace returns the time from one turn to the next, rounded up to whole ticks.
func limitPace(rule *core.Rule) time.Duration {
	scale := rule.Integers
	ticks := (scale.Unit + scale.Rate - 1) / scale.Rate
	return time.Duration(ticks*scale.Tick) * time.Microsecond
}
