package prefetch

// The life of a slice: how large it is, when it comes and when it ends.

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// planSlice sets how many units to take ahead with a request. It reports false if
// there are none to take, or if another request is already taking a slice of the
// key. After true, the request has to call endPlans when it is done.
func (p *Prefetcher) planSlice(plan *checkPlan, now, cost int64) bool {
	if !plan.key.planning.CompareAndSwap(false, true) {
		return false
	}
	if plan.ahead = p.sliceSize(plan.key, now, cost); plan.ahead == 0 {
		plan.key.planning.Store(false)
		return false
	}
	plan.epoch = plan.key.currentEpoch()
	return true
}

// endPlans ends a request's plans, and reports whether there were any.
func endPlans(plans []checkPlan) (ended bool) {
	for i := range plans {
		if plans[i].ahead > 0 {
			plans[i].ahead, ended = 0, true
			plans[i].key.planning.Store(false)
		}
	}
	return ended
}

// sliceSize returns how many units to take ahead for a key: what this process used
// in the time for which they will last, as far as the fraction allows. The caller
// holds k.planning.
func (p *Prefetcher) sliceSize(k *hotKey, now, cost int64) int64 {
	used := k.used(now)
	elapsed := max(now-k.countedAt, k.lifetime/maxGrowth) // a shorter time says too little
	demand := min(perTime(used-k.countedUnits, k.lifetime, elapsed), maxGrowth*k.demand)
	lasts := k.lifetime
	if k.rule.Algorithm != store.TokenBucket {
		left := k.windowEnd.Load() - now
		if left <= 0 {
			left = int64(k.rule.Window)
		}
		lasts = min(lasts, left)
	}
	n := min(perTime(demand, lasts, k.lifetime), p.fractionOf(k.remaining.Load()-cost)) - k.held(now)
	if n -= n % cost; n < minRequests*cost { // whole requests, since nobody could spend a rest
		return 0
	}
	k.countedAt, k.countedUnits, k.demand = now, used, max(demand, 1)
	return n
}

// perTime returns units × of / in, without overflow. The times are nanoseconds, and
// less than a microsecond counts as one.
func perTime(units, of, in int64) int64 {
	of, in = of/1000, max(in/1000, 1)
	if units <= 0 {
		return 0
	}
	if of > 0 && units > (1<<62)/of {
		return 1 << 62 / in
	}
	return units * of / in
}

// addSlice makes a slice of what the store has charged ahead with a check, and
// turns the store's answer into the one for the check alone.
func (p *Prefetcher) addSlice(plan *checkPlan, c *store.Check, r *store.Result, sent, received int64) {
	k := plan.key
	s := k.newSlice(plan.ahead, c.Rule, r, sent, received)
	k.storeGranted.Add(c.Cost)
	excess := p.trim(k, s, c.Cost, r.Remaining, received)
	*r = s.answerWith(k, c.Cost, received, plan.ahead+k.held(received), true)
	p.begin(k, s, plan.ahead, excess, plan.epoch, received)
}

// newSlice returns a slice of units that the store has charged, and notes the store's answer.
func (k *hotKey) newSlice(units int64, rule *store.Rule, r *store.Result, sent, received int64) *slice {
	lasts := k.lifetime
	s := &slice{units: units, received: received, chargedAt: r.At, remaining: r.Remaining, resetAfter: r.ResetAfter.Microseconds()}
	if end := windowLeft(rule, r); end > 0 {
		k.windowEnd.Store(sent + end) // counted from sent, so that it is not later than the store's
		if end <= lasts {
			lasts = end
			s.lastOfWindow = rule.Algorithm == store.FixedWindow
		}
	}
	s.expires = sent + lasts - lasts>>driftShift
	k.remaining.Store(r.Remaining)
	k.lastAsked.Store(received)
	return s
}

// trim takes from a new slice what the process may not hold, since what remains may have become
// less since the slice was planned. It returns the units that are to be given back.
func (p *Prefetcher) trim(k *hotKey, s *slice, cost, remaining, received int64) (excess int64) {
	keep := min(max(p.fractionOf(remaining+s.units)-k.held(received), 0), s.units)
	excess = s.units - (keep - keep%cost)
	s.units -= excess
	s.left.Store(s.units)
	return excess
}

// begin has requests spend a slice, unless it is too late for that, and gives back what there is
// to be given back. charged is how many units were charged for the slice, planned in epoch.
func (p *Prefetcher) begin(k *hotKey, s *slice, charged, excess int64, epoch uint32, received int64) {
	k.mu.Lock()
	if k.epoch != epoch || k.removed || received >= s.expires {
		wasReset := k.epoch != epoch
		k.mu.Unlock()
		if !wasReset { // a store that was reset may have forgotten the charge
			p.giveBack(k, s, charged)
		}
		return
	}
	k.prefetched += s.units
	s.stopTimer = p.clock.After(time.Duration(s.expires-received), func() { p.expire(k, s) })
	displaced := k.older.Swap(k.newest.Swap(s))
	rest := int64(0)
	if displaced != nil {
		displaced.stopTimer()
		rest = displaced.end()
		k.unspent += rest
	}
	k.mu.Unlock()
	p.giveBack(k, displaced, rest)
	p.giveBack(k, s, excess)
}

// expire ends a slice whose time is over, and returns what is left. If it was the
// key's last one and the key is not used much any more, the key is not hot any
// longer. It runs on the timer's goroutine.
func (p *Prefetcher) expire(k *hotKey, s *slice) {
	k.mu.Lock()
	rest := s.end()
	k.unspent += rest
	k.newest.CompareAndSwap(s, nil)
	k.older.CompareAndSwap(s, nil)
	last := k.newest.Load() == nil && k.older.Load() == nil
	k.mu.Unlock()
	p.giveBack(k, s, rest)
	if last && k.planning.CompareAndSwap(false, true) {
		if now := p.clock.Now(); perTime(k.used(now)-k.countedUnits, p.maxAge, max(now-k.countedAt, p.maxAge)) < k.coolBelow {
			p.hotKeys.remove(k)
		}
		k.planning.Store(false)
	}
}
