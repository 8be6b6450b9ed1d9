// Package prefetch lets a process decide ahead of its store. It takes a slice of
// a hot key's quota in one call, and decides by itself until the slice is spent or
// too old. Then it returns what is left.
//
// A slice is charged by a normal Take, whose cost is that of the request plus that
// of the slice; with penalties, by one of its own. So a process grants only units that the store has charged. What can
// be wrong is time and place: a unit is spent later than it was charged, by at most
// maxAge, and while one process holds it, nobody else can have it.
//
// # Files
//
//   - prefetch.go: Take, the way of a request
//   - hotkey.go: a key that has slices, and what is known of its use
//   - slice.go: a slice and its units
//   - plan.go: how large the next slice is, when it begins and when it ends
//   - penalties.go: slices of requests with penalties
//   - answer.go: the result of a check that a slice has decided
//   - storecall.go: what the store is asked for the rest of a request
//   - candidates.go: counts requests, to find hot keys
//   - table.go: the hot keys
//   - returns.go: gives unspent units back, in the background
//
// # Bounds
//
// Fixed and sliding windows: a slice ends before the window that it was charged in.
// Each unit is spent in the window that counts it, so no window is ever exceeded.
//
// Token bucket: let E be the debt of an exact bucket that is charged with each
// unit when it is granted, D the store's debt, out the units that processes hold,
// and G = E − D. Taking a slice and spending it leave G + out as it is. A return
// takes as many units from out as it takes at most from D, so G + out does not
// rise. Time drains both debts alike, while E > 0. At the last moment at which E
// was 0, G was at most 0. So E ≤ D + G ≤ burst + out at that moment: the units
// that were charged to the bucket while it would have been full, and are spent
// later. At such a moment there was hardly any load, so out was small: the
// simulation (package internal/test/prefetchsim) has not found more than the bucket
// regains while a slice lasts.
//
// Denials: the store may deny a request while processes hold units: at most those.
// A process never holds more than fraction of what was left when it took its slice.
// Of a window's quota, the units of one process were charged before the next process
// looked at what is left, so n processes leave at least (1 − fraction)^n of the
// quota. The units of a process that died count as used until the window is over or
// the bucket has refilled. So do units that are not given back to a bucket because
// it may have regained them already.
package prefetch

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// maxChecks is how many checks a request can have at most to be decided locally.
	maxChecks = 8

	// hotRequests is how many requests of a key the store must have granted
	// within maxAge for the key to be hot.
	hotRequests = 64

	// minRequests is how many requests a slice must be good for. A smaller one saves
	// nothing, and so the store decides the last units itself.
	minRequests = 4

	// maxGrowth bounds a slice by a multiple of the one before it.
	maxGrowth = 8

	// lowWater: the next slice is taken when 1/lowWater of the newest one is left.
	lowWater = 4

	// driftShift is the part of its lifetime that a slice gives up, 1/1024, so that
	// a clock that runs too slow by no more than that does not outlive its window.
	driftShift = 10
)

// Source is the part of a [store.Store] that slices are taken from and returned to.
type Source interface {
	Take(ctx context.Context, checks []store.Check, results []store.Result) error
	Refund(ctx context.Context, checks []store.Check, results []store.Result) error

	// Lease is a Take of one check, for a slice that lasts no longer than given. A denial
	// counts towards no block. If the rule has a penalty, the check is denied while a denial or
	// a block of the key counts; and if it is granted, denials don't count until what is left
	// of the slice has come back.
	Lease(ctx context.Context, c *store.Check, lasts time.Duration, r *store.Result) error
}

// Clock is the time by which slices end.
type Clock interface {
	// Now returns nanoseconds on a clock that is never set.
	Now() int64

	// After runs f once d has passed, unless it is stopped before. It never runs f
	// within the call.
	After(d time.Duration, f func()) (stop func())
}

// Prefetcher holds what a process has taken ahead of its store's quotas. It is
// safe for concurrent use.
type Prefetcher struct {
	source   Source
	clock    Clock
	maxAge   int64 // nanoseconds
	fraction int64 // in millionths, since no float decides
	patience time.Duration

	seed       maphash.Seed
	hotKeys    table
	candidates candidates
	returns    returns
}

// New returns a Prefetcher whose slices are up to fraction of what remains and
// last for up to maxAge. Its calls in the background, which take slices and return them, take up
// to patience each.
func New(source Source, clock Clock, fraction float64, maxAge, patience time.Duration) *Prefetcher {
	p := &Prefetcher{source: source, clock: clock, maxAge: int64(maxAge), fraction: int64(fraction * 1e6), patience: patience, seed: maphash.MakeSeed()}
	p.candidates.sets = make([]candidateSet, candidateSets)
	return p
}

// checkPlan is how one check of a request is decided. Only the request's goroutine
// uses it.
type checkPlan struct {
	hash   uint64  // of the key and the limit
	key    *hotKey // nil if the key is not hot
	paidBy *slice  // what the check was charged to; nil if the store decides it

	// ahead is how many units to take ahead, with the call that decides the request.
	// While it is above 0, this request holds key.planning.
	ahead int64
	epoch uint32 // of key, when ahead was planned
}

// Take decides as [store.Store.Take] does. Each check is charged to its key's
// slices if these have enough units. The store decides the others together. If
// the store denies, the slices get back what they gave.
func (p *Prefetcher) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	if len(checks) > maxChecks {
		return p.source.Take(ctx, checks, results)
	}
	var few [maxChecks]checkPlan // not on the heap
	plans := few[:len(checks)]
	now := p.clock.Now()
	planned, counted := false, false
	for i := range plans {
		plan, c := &plans[i], &checks[i]
		counted = counted || c.Rule.Penalized()
		if !prefetchable(c) {
			continue
		}
		plan.hash = p.hash(c)
		plan.key = p.hotKeys.find(plan.hash, c)
		if plan.key != nil && plan.key.isLow(now) && p.planSlice(plan, now, c.Cost) {
			planned = true
		}
	}
	if counted && planned {
		p.leasePlanned(checks, plans)
		planned = false
	}
	if !planned && spend(now, checks, plans) {
		for i := range plans {
			results[i] = plans[i].key.answer(plans[i].paidBy, checks[i].Cost, now, true)
		}
		return nil
	}
	return p.askStore(ctx, now, checks, results, plans)
}

// prefetchable reports whether slices can decide such a check. It names the algorithms
// that answerWith knows how to answer for; the store decides all others. A log's readings
// do not say when each unit becomes free. Concurrency slots are held and given back by
// the time at which they were taken. The quota of a calendar window is too precious to
// hold. A cost of 0 asks for what only the store knows, and so does an operation that is
// charged once.
func prefetchable(c *store.Check) bool {
	switch c.Rule.Algorithm {
	case store.TokenBucket, store.FixedWindow, store.SlidingWindow:
		return c.Cost > 0 && c.Once == nil && !c.Rule.Divided // a slice knows no shares
	}
	return false
}

// spend charges the checks to their slices, except those that take a slice ahead.
// It reports whether that has decided all checks.
func spend(now int64, checks []store.Check, plans []checkPlan) bool {
	all := true
	for i := range plans {
		plan := &plans[i]
		if plan.key != nil && plan.ahead == 0 && plan.paidBy == nil {
			plan.paidBy = plan.key.spend(now, checks[i].Cost)
		}
		all = all && plan.paidBy != nil
	}
	return all
}

// unspend undoes spend. Units of a slice that has ended meanwhile are returned.
func (p *Prefetcher) unspend(checks []store.Check, plans []checkPlan) {
	for i := range plans {
		if plan := &plans[i]; plan.paidBy != nil && !plan.paidBy.putBack(checks[i].Cost) {
			p.giveBack(plan.key, plan.paidBy, checks[i].Cost)
		}
	}
}

// askStore has the store decide the checks that no slice has decided, and take the
// planned slices with the same call. If the store denies that, it is asked again
// without the slices.
func (p *Prefetcher) askStore(ctx context.Context, now int64, checks []store.Check, results []store.Result, plans []checkPlan) error {
	defer endPlans(plans)
	if spend(now, checks, plans) { // the second time around, slices may suffice
		p.answerSpent(now, checks, results, plans, true)
		return nil
	}
	call := storeCalls.Get().(*storeCall)
	defer call.release()
	call.fill(checks, plans)
	if err := p.source.Take(ctx, call.checks, call.results); err != nil {
		p.unspend(checks, plans)
		return err // what was charged stays charged
	}
	received := p.clock.Now()
	denied := call.denied()
	if denied && endPlans(plans) {
		for n, i := range call.which {
			plans[i].key.noteRemaining(&call.results[n])
		}
		return p.askStore(ctx, received, checks, results, plans)
	}
	for n, i := range call.which {
		results[i] = call.results[n]
		p.learn(&plans[i], &checks[i], &results[i], now, received)
	}
	p.retryShadows(ctx, checks, results, plans)
	if denied {
		p.unspend(checks, plans)
	}
	p.answerSpent(received, checks, results, plans, !denied)
	return nil
}

// answerSpent fills in the results of the checks that slices have decided.
func (p *Prefetcher) answerSpent(now int64, checks []store.Check, results []store.Result, plans []checkPlan, charged bool) {
	for i := range plans {
		if plan := &plans[i]; plan.paidBy != nil {
			results[i] = plan.key.answer(plan.paidBy, checks[i].Cost, now, charged)
		}
	}
}

// learn reads the store's answer to one check: it holds a slice, or news of a hot
// key, or it counts towards making the key hot.
func (p *Prefetcher) learn(plan *checkPlan, c *store.Check, r *store.Result, sent, received int64) {
	switch {
	case plan.ahead > 0 && r.Charged:
		p.addSlice(plan, c, r, sent, received)
	case plan.key != nil && r.Blocked:
		p.end(plan.key)
	case r.Cached || !prefetchable(c):
	case plan.key != nil:
		plan.key.noteAnswer(sent, c, r)
	case r.Charged: // a key that is denied has nothing to prefetch
		if units, since, hot := p.candidates.count(plan.hash, c.Cost, sent, p.maxAge); hot {
			k := newHotKey(plan.hash, c, units, since, p.maxAge)
			k.noteAnswer(sent, c, r)
			p.hotKeys.put(k, sent, p.maxAge)
		}
	}
}

// retryShadows asks again for shadow checks that did not fit together with their
// slices, since they may fit alone. If the store does not answer, they count as
// exceeded.
func (p *Prefetcher) retryShadows(ctx context.Context, checks []store.Check, results []store.Result, plans []checkPlan) {
	for i := range plans {
		plan := &plans[i]
		if plan.ahead == 0 || results[i].Charged {
			continue
		}
		again, answer := []store.Check{checks[i]}, make([]store.Result, 1)
		if p.source.Take(ctx, again, answer) == nil {
			results[i] = answer[0]
			plan.key.noteAnswer(p.clock.Now(), &checks[i], &answer[0])
		}
	}
}

// Forget drops the slices of the checks' keys, whatever the limits' numbers, and
// returns nothing: the store has forgotten what it charged.
func (p *Prefetcher) Forget(checks []store.Check) {
	for i := range checks {
		c := &checks[i]
		hash := p.hash(c)
		set := p.hotKeys.set(hash)
		for w := range set {
			if k := set[w].Load(); k != nil && k.isOfLimit(hash, c) {
				k.dropSlices()
			}
		}
		p.returns.forget(hash)
	}
}

// Held returns how many units of a check's key the process could spend now.
func (p *Prefetcher) Held(c *store.Check) int64 {
	if k := p.hotKeys.find(p.hash(c), c); k != nil {
		return k.held(p.clock.Now())
	}
	return 0
}

// hash returns a hash of the check's key and limit. It depends on neither the
// limit's numbers nor anything that a client could compute.
func (p *Prefetcher) hash(c *store.Check) uint64 {
	return maphash.Bytes(p.seed, c.Key) ^ c.Rule.ID()*0x9e3779b97f4a7c15
}

// fractionOf returns how much of n units a process may hold.
func (p *Prefetcher) fractionOf(n int64) int64 {
	const million = 1_000_000
	return n/million*p.fraction + n%million*p.fraction/million
}
