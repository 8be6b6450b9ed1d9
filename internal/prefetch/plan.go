package prefetch

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// plan sets the slice to ask for with a request. It reports false if there is
// none, be it because another request is on its way with one. Else the request
// has to end the plan when it is done.
func (l *Prefetcher) plan(p *part, now, cost int64) bool {
	if !p.entry.planning.CompareAndSwap(false, true) {
		return false
	}
	if p.slice = l.slice(p.entry, now, cost); p.slice == 0 {
		p.entry.planning.Store(false)
		return false
	}
	p.epoch = p.entry.current()
	return true
}

// endPlans ends a request's plans, and reports whether there were any.
func endPlans(parts []part) (ended bool) {
	for i := range parts {
		if parts[i].slice > 0 {
			parts[i].slice, ended = 0, true
			parts[i].entry.planning.Store(false)
		}
	}
	return ended
}

// slice returns how many units to take ahead for a key: what it used at this
// process in the time for which they will last, as far as the fraction allows.
// The caller is planning.
func (l *Prefetcher) slice(e *entry, now, cost int64) int64 {
	used := e.used(now)
	elapsed := max(now-e.since, e.age/growth) // less says too little
	demand := min(rate(used-e.counts, e.age, elapsed), growth*e.slice)
	lasts := e.age
	if e.rule.Algorithm != store.TokenBucket {
		left := e.windowEnd.Load() - now
		if left <= 0 {
			left = int64(e.rule.Window)
		}
		lasts = min(lasts, left)
	}
	n := min(rate(demand, lasts, e.age), l.share(e.remaining.Load()-cost)) - e.held(now)
	if n -= n % cost; n < fewest*cost { // or a rest would be spent by nobody
		return 0
	}
	e.since, e.counts, e.slice = now, used, max(demand, 1)
	return n
}

// rate returns units × of / in without overflow; no time counts as a microsecond.
func rate(units, of, in int64) int64 {
	of, in = of/1000, max(in/1000, 1)
	if units <= 0 {
		return 0
	}
	if of > 0 && units > (1<<62)/of {
		return 1 << 62 / in
	}
	return units * of / in
}

// install makes a grant of a slice that the store has charged, and turns the
// store's answer into the one without it.
func (l *Prefetcher) install(p *part, c *store.Check, r *store.Result, sent, received int64) {
	e := p.entry
	lasts := e.age
	g := &grant{units: p.slice, received: received, at: r.At, worth: true, remaining: r.Remaining, reset: r.ResetAfter.Microseconds()}
	if end := windowLeft(c.Rule, r); end > 0 {
		e.windowEnd.Store(sent + end) // not later than by the store
		if end <= lasts {
			lasts = end
			g.worth = c.Rule.Algorithm != store.FixedWindow
		}
	}
	g.expires = sent + lasts - lasts>>driftShift
	e.remaining.Store(r.Remaining)
	e.touched.Store(received)
	e.asked.Add(c.Cost)

	// What remains may have become less since the slice was planned.
	keep := min(max(l.share(r.Remaining+g.units)-e.held(received), 0), g.units)
	excess := g.units - (keep - keep%c.Cost)
	g.units -= excess
	g.left.Store(g.units)
	*r = g.answerWith(e, c.Cost, received, p.slice+e.held(received), true)

	e.mu.Lock()
	if e.epoch != p.epoch || e.gone || received >= g.expires {
		forgotten := e.epoch != p.epoch
		e.mu.Unlock()
		if !forgotten { // else the store may not know of the charge any more
			l.giveBack(e, g, p.slice)
		}
		return
	}
	e.granted += g.units
	g.stop = l.clock.After(time.Duration(g.expires-received), func() { l.expire(e, g) })
	oldest := e.before.Swap(e.newest.Swap(g))
	rest := int64(0)
	if oldest != nil {
		oldest.stop()
		rest = oldest.end()
		e.unused += rest
	}
	e.mu.Unlock()
	l.giveBack(e, oldest, rest)
	l.giveBack(e, g, excess)
}

// expire ends a grant whose time is over, and returns what is left.
func (l *Prefetcher) expire(e *entry, g *grant) {
	e.mu.Lock()
	rest := g.end()
	e.unused += rest
	e.newest.CompareAndSwap(g, nil)
	e.before.CompareAndSwap(g, nil)
	last := e.newest.Load() == nil && e.before.Load() == nil
	e.mu.Unlock()
	l.giveBack(e, g, rest)
	if last && e.planning.CompareAndSwap(false, true) {
		if now := l.clock.Now(); rate(e.used(now)-e.counts, l.maxAge, max(now-e.since, l.maxAge)) < e.cool {
			l.entries.remove(e)
		}
		e.planning.Store(false)
	}
}
