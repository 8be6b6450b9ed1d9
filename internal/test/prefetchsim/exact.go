package prefetchsim

// An exact account of one key, as simple as can be: the measure of the simulation.

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// exact is the state of one key under one rule: the simulated store, and the
// measure of what the instances granted. All times are microseconds since the epoch.
type exact struct {
	rule *core.Rule
	now  int64

	debt      int64 // token bucket, in its integers
	this      int64 // windows: units used in this window
	last      int64 // sliding window: in the one before
	start     int64 // of this window
	emptiedAt int64 // the last time that move found nothing used
}

// move brings the state to a time, which never goes back.
func (x *exact) move(now int64) {
	ints := x.rule.Integers
	if x.rule.Algorithm == store.TokenBucket {
		drained := (now/ints.Tick - x.now/ints.Tick) * ints.Rate
		if x.debt -= drained; x.debt <= 0 {
			x.debt, x.emptiedAt = 0, now
		}
		x.now = now
		return
	}
	x.now = now
	window := ints.Unit * ints.Tick
	start := now - now%window
	switch start - x.start {
	case 0:
	case window:
		x.last, x.this = x.this, 0
	default:
		x.last, x.this = 0, 0
	}
	x.start = start
	if x.rule.Algorithm == store.FixedWindow {
		x.last = 0
	}
	if x.this == 0 && x.last == 0 {
		x.emptiedAt = now
	}
}

// free returns the units that fit now. It is below 0 if more than the limit is used.
func (x *exact) free() int64 {
	ints := x.rule.Integers
	if x.rule.Algorithm == store.TokenBucket {
		return floorDiv(ints.Capacity-x.debt, ints.Unit)
	}
	left := ints.Unit - (x.now-x.start)/ints.Tick
	return floorDiv((ints.Capacity-x.this)*ints.Unit-x.last*left, ints.Unit)
}

func (x *exact) charge(units int64) {
	if x.rule.Algorithm == store.TokenBucket {
		x.debt += units * x.rule.Integers.Unit
		return
	}
	x.this += units
}

// refund gives back units as a [store.Store] does. It returns how many it gave back:
// all but those that time may have given back already.
func (x *exact) refund(units, at int64) int64 {
	ints := x.rule.Integers
	switch {
	case x.rule.Algorithm == store.TokenBucket:
		back := units*ints.Unit - max(x.now/ints.Tick-at/ints.Tick, 0)*ints.Rate
		back = min(max(back, 0), x.debt)
		x.debt -= back
		return back / ints.Unit
	case at >= x.start:
		x.this -= min(units, x.this)
	case at >= x.start-ints.Unit*ints.Tick:
		x.last -= min(units, x.last)
	}
	return units
}

// result returns the store's answer to a check.
func (x *exact) result(cost int64, charged bool) core.Result {
	ints := x.rule.Integers
	reading := counting.Reading{Charged: charged, At: x.now}
	switch x.rule.Algorithm {
	case store.TokenBucket:
		reading.Numbers = [4]int64{x.debt / ints.Rate, x.debt % ints.Rate}
	case store.FixedWindow:
		reading.Numbers = [4]int64{x.this, x.start + ints.Unit - x.now}
	default:
		reading.Numbers = [4]int64{x.this, x.last, (x.now - x.start) / ints.Tick}
	}
	return reading.Result(x.rule, cost)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
