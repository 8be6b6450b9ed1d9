// Package prefetch lets a process decide ahead of its store: it takes a slice of a
// hot key's quota in one call, and decides by itself until the slice is spent or
// too old; then it returns what is left.
//
// A slice is charged by a normal Take, whose cost is the request's and the
// slice: no unit is ever granted that the store has not charged. What a lease
// can get wrong is time and place. A unit is spent later than it was charged, by
// at most maxAge, and while it is held nobody else can have it.
//
// # Bounds
//
// Fixed and sliding windows: a lease ends before the window it was charged in.
// Each unit is spent in the window that counts it, so no window is ever
// exceeded.
//
// Token bucket: let E be the debt of an exact bucket that is charged with each
// unit when it is granted, D the store's, out what is leased, and G = E − D.
// Taking a slice and spending it leave G + out as it is. A return takes as many
// units from out as it takes at most from D, so G + out does not rise. Time
// drains both debts alike, while E > 0. At the last moment at which E was 0, G
// was at most 0. So E ≤ D + G ≤ burst + what was leased at that moment: the units
// that were charged to the bucket while it would have been full, and are spent
// later. Such a moment is one of hardly any load, so that is little: the
// simulation (package prefetchsim) has not found more than the bucket regains
// while a lease lasts.
//
// Denials: the store denies a request while units are leased elsewhere: at most
// those. An instance never holds more than fraction of what was left when it
// took its slice. Of a window's quota, units that are held were charged before
// the next instance looked at what is left, so n instances leave it at least
// (1 − fraction)^n of the quota. Units of a process that died count as used until
// the window is over or the bucket has refilled, and so does what is not given
// back to a bucket because it may have regained it already.
package prefetch

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// maxChecks is how many checks a request can have that is decided locally.
	maxChecks = 8

	// hotRequests is how many requests of a key the store must have granted
	// within maxAge for the key to be leased.
	hotRequests = 64

	// fewest is how many requests a slice must be good for. A smaller one saves
	// nothing, and the last units are decided by the store.
	fewest = 4

	// growth bounds a slice by a multiple of the one before it.
	growth = 8

	// lowWater is the part of a slice, 1 of so many, at which the next is taken.
	lowWater = 4

	// driftShift is the part of its time that a lease gives up, 1/1024, so that
	// a clock that runs too slow by no more than that outlives nothing.
	driftShift = 10

	// returnTimeout is how long a return may take.
	returnTimeout = time.Second
)

// Source is the part of a [store.Store] that leases are taken from and returned to.
type Source interface {
	Take(ctx context.Context, checks []store.Check, results []store.Result) error
	Refund(ctx context.Context, checks []store.Check, results []store.Result) error
}

// Clock is the time that leases run by.
type Clock interface {
	// Now returns nanoseconds on a clock that is never set.
	Now() int64

	// After runs f once d has passed, not within the call, unless it is stopped before.
	After(d time.Duration, f func()) (stop func())
}

// Prefetcher are what a process holds of its store's quotas. They are safe for
// concurrent use.
type Prefetcher struct {
	source Source
	clock  Clock
	maxAge int64 // nanoseconds
	ppm    int64 // the fraction, in millionths: no float decides

	seed       maphash.Seed
	entries    table
	candidates candidates
	returns    returns
}

// New returns leases of up to fraction of what remains, for up to maxAge.
func New(source Source, clock Clock, fraction float64, maxAge time.Duration) *Prefetcher {
	l := &Prefetcher{source: source, clock: clock, maxAge: int64(maxAge), ppm: int64(fraction * 1e6), seed: maphash.MakeSeed()}
	l.candidates.sets = make([]candidateSet, candidateSets)
	return l
}

// part is what is known of one check of a request.
type part struct {
	hash  uint64
	entry *entry // nil if the key is not leased
	from  *grant // what the check was charged to, if it was
	slice int64  // to ask for; then the entry is being planned by this request
	epoch uint32 // of the entry, when that was planned
}

// Take decides as store.Store.Take does: each check by its key's lease where there
// are enough units in it, the others together by the store. If the store denies,
// the leases get back what they gave.
func (l *Prefetcher) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	if len(checks) > maxChecks || penalized(checks) {
		return l.source.Take(ctx, checks, results)
	}
	var few [maxChecks]part
	parts := few[:len(checks)]
	now := l.clock.Now()
	planned := false
	for i := range parts {
		p, c := &parts[i], &checks[i]
		if !leasable(c) {
			continue
		}
		p.hash = l.hash(c)
		p.entry = l.entries.find(p.hash, c)
		if p.entry != nil && p.entry.isLow(now) && l.plan(p, now, c.Cost) {
			planned = true
		}
	}
	if !planned && spend(now, checks, parts) {
		for i := range parts {
			results[i] = parts[i].entry.answer(parts[i].from, checks[i].Cost, now, true)
		}
		return nil
	}
	return l.ask(ctx, now, checks, results, parts)
}

// leasable reports whether a lease can decide such a check. A log's readings don't
// tell when each unit comes free, slots are held and given back by their time, a
// calendar window's quota is nothing to hold on to, a cost of 0 asks for what the
// store knows, and so does an operation's key.
func leasable(c *store.Check) bool {
	switch c.Rule.Algorithm {
	case store.SlidingLog, store.Concurrency, store.Calendar:
		return false
	}
	return c.Cost > 0 && c.Once == nil
}

// penalized reports whether a denial of the checks can count towards a block: then
// the store has to see the request as it is, and once.
func penalized(checks []store.Check) bool {
	for i := range checks {
		if checks[i].Rule.Penalized() {
			return true
		}
	}
	return false
}

// spend charges the leases, where there are some and no slice is planned. It
// reports whether that settles all checks.
func spend(now int64, checks []store.Check, parts []part) bool {
	all := true
	for i := range parts {
		p := &parts[i]
		if p.entry != nil && p.slice == 0 && p.from == nil {
			p.from = p.entry.spend(now, checks[i].Cost)
		}
		all = all && p.from != nil
	}
	return all
}

// unspend undoes spend. What belongs to a lease that has ended meanwhile is returned.
func (l *Prefetcher) unspend(checks []store.Check, parts []part) {
	for i := range parts {
		if p := &parts[i]; p.from != nil && !p.from.add(checks[i].Cost) {
			l.giveBack(p.entry, p.from, checks[i].Cost)
		}
	}
}

// ask has the store decide what no lease does, with the slices that are planned.
// If it denies these, it is asked again without them.
func (l *Prefetcher) ask(ctx context.Context, now int64, checks []store.Check, results []store.Result, parts []part) error {
	defer endPlans(parts)
	if spend(now, checks, parts) {
		l.finish(now, checks, results, parts, true)
		return nil
	}
	asked := askedPool.Get().(*asked)
	defer asked.release()
	asked.fill(checks, parts)
	if err := l.source.Take(ctx, asked.checks, asked.results); err != nil {
		l.unspend(checks, parts)
		return err // what was charged stays charged
	}
	received := l.clock.Now()
	refused := asked.refused()
	if refused && endPlans(parts) {
		for n, i := range asked.which {
			parts[i].entry.hear(&asked.results[n])
		}
		return l.ask(ctx, received, checks, results, parts)
	}
	for n, i := range asked.which {
		results[i] = asked.results[n]
		l.learn(&parts[i], &checks[i], &results[i], now, received)
	}
	l.askShadows(ctx, checks, results, parts)
	if refused {
		l.unspend(checks, parts)
	}
	l.finish(received, checks, results, parts, !refused)
	return nil
}

// finish answers the checks that leases have decided.
func (l *Prefetcher) finish(now int64, checks []store.Check, results []store.Result, parts []part, charged bool) {
	for i := range parts {
		if p := &parts[i]; p.from != nil {
			results[i] = p.entry.answer(p.from, checks[i].Cost, now, charged)
		}
	}
}

// learn takes from the store's answer to one check what leases need: a slice, or
// whether the key is worth one.
func (l *Prefetcher) learn(p *part, c *store.Check, r *store.Result, sent, received int64) {
	switch {
	case p.slice > 0 && r.Charged:
		l.install(p, c, r, sent, received)
	case r.Cached || !leasable(c):
	case p.entry != nil:
		p.entry.heard(sent, c, r)
	case r.Charged: // what is denied needs no lease
		if units, since, hot := l.candidates.count(p.hash, c.Cost, sent, l.maxAge); hot {
			e := newEntry(p.hash, c, units, since, l.maxAge)
			e.heard(sent, c, r)
			l.entries.put(e, sent, l.maxAge)
		}
	}
}

// askShadows asks again for shadow checks that did not fit with their slices:
// alone they may. If the store does not answer, they count as exceeded.
func (l *Prefetcher) askShadows(ctx context.Context, checks []store.Check, results []store.Result, parts []part) {
	for i := range parts {
		p := &parts[i]
		if p.slice == 0 || results[i].Charged {
			continue
		}
		again, answer := []store.Check{checks[i]}, make([]store.Result, 1)
		if l.source.Take(ctx, again, answer) == nil {
			results[i] = answer[0]
			p.entry.heard(l.clock.Now(), &checks[i], &answer[0])
		}
	}
}

// Forget drops the leases of the checks' keys, whatever their limits' numbers,
// and returns nothing: the store does not know of them any more.
func (l *Prefetcher) Forget(checks []store.Check) {
	for i := range checks {
		c := &checks[i]
		hash := l.hash(c)
		set := l.entries.set(hash)
		for w := range set {
			if e := set[w].Load(); e != nil && e.of(hash, c) {
				e.drop()
			}
		}
		l.returns.forget(hash)
	}
}

// Held returns how many units a check's key can have from its lease now.
func (l *Prefetcher) Held(c *store.Check) int64 {
	if e := l.entries.find(l.hash(c), c); e != nil {
		return e.held(l.clock.Now())
	}
	return 0
}

func (l *Prefetcher) hash(c *store.Check) uint64 {
	return maphash.Bytes(l.seed, c.Key) ^ uint64(c.Rule.ID())*0x9e3779b97f4a7c15
}

// share returns the fraction of n that an instance may hold.
func (l *Prefetcher) share(n int64) int64 {
	const million = 1_000_000
	return n/million*l.ppm + n%million*l.ppm/million
}
