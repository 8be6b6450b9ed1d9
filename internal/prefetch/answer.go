package prefetch

// The result of a check that a slice has decided: what the store last said of the
// key, brought forward to now.

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// answer returns the result of a check with this cost that was charged to slice s,
// or was to be charged to it. It is what the store last said of the key, as it
// would be if nobody else had asked since. Remaining is what the store had left,
// plus what time has given back since and what this process still holds.
func (k *hotKey) answer(s *slice, cost, now int64, charged bool) store.Result {
	if newest := k.newest.Load(); newest != nil {
		s = newest // what the store said with the newest slice is its latest word
	}
	return s.answerWith(k, cost, now, k.held(now), charged)
}

// answerWith is answer for a process that holds so many units.
func (s *slice) answerWith(k *hotKey, cost, now, held int64, charged bool) store.Result {
	rule, ints := &k.rule, k.rule.Integers
	// The store's answer took some time to arrive, so this time of day is never later
	// than the store's.
	passed := max(now-s.received, 0) / int64(time.Microsecond)
	reset := max(s.resetAfter-passed, 0)
	reading := counting.Reading{Charged: charged, At: s.chargedAt + passed}
	n := &reading.Numbers
	switch rule.Algorithm {
	case store.TokenBucket: // the time until the debt is 0 determines the debt
		ticks := min(ceilDiv(reset, ints.Tick), ints.Capacity/ints.Rate)
		debt := ticks * ints.Rate
		debt -= min(held, debt/ints.Unit) * ints.Unit
		n[0], n[1] = debt/ints.Rate, debt%ints.Rate
	case store.FixedWindow:
		n[0], n[1] = s.usedWhile(rule, held), reset
	case store.SlidingWindow: // how much belongs to the window before is unknown: all counts as of this one
		n[0], n[2] = s.usedWhile(rule, held), max(2*ints.Unit-ceilDiv(reset, ints.Tick), 0)
	}
	return reading.Result(rule, cost)
}

// usedWhile returns how many units count as used while the process holds so many.
func (s *slice) usedWhile(rule *store.Rule, held int64) int64 {
	return max(rule.Burst-s.remaining-held, 0)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
