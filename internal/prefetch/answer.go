package prefetch

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// answer returns the result of a cost that was charged to the entry's grant g, or
// was to be: what the store last said of the key, as it would be if nobody else
// had asked since. Remaining is what was left then, and what time has given back
// since, and what this process still holds.
func (e *entry) answer(g *grant, cost, now int64, charged bool) store.Result {
	if newest := e.newest.Load(); newest != nil {
		g = newest // of which the store spoke last
	}
	return g.answerWith(e, cost, now, e.held(now), charged)
}

// answerWith is answer, when so many units are held.
func (g *grant) answerWith(e *entry, cost, now, held int64, charged bool) store.Result {
	rule, scale := &e.rule, e.rule.Scale()
	// Never later than by the store's own clock, since the answer took some time to come.
	passed := max(now-g.received, 0) / int64(time.Microsecond)
	reset := max(g.reset-passed, 0)
	reading := store.Reading{Charged: charged, At: g.at + passed}
	n := &reading.Numbers
	switch rule.Algorithm {
	case store.TokenBucket: // when the debt ends tells all of it
		ticks := min(ceilDiv(reset, scale.Tick), scale.Capacity/scale.Rate)
		debt := ticks * scale.Rate
		debt -= min(held, debt/scale.Unit) * scale.Unit
		n[0], n[1] = debt/scale.Rate, debt%scale.Rate
	case store.FixedWindow:
		n[0], n[1] = g.usedWith(rule, held), reset
	default: // how much of it is of the window before is not known: all counts as of this one
		n[0], n[2] = g.usedWith(rule, held), max(2*scale.Unit-ceilDiv(reset, scale.Tick), 0)
	}
	return rule.Result(cost, reading)
}

func (g *grant) usedWith(rule *store.Rule, held int64) int64 {
	return max(rule.Burst-g.remaining-held, 0)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
