package prefetch

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// coolShare is the part, 1 of so many, of the use that made a key hot below which
// it is an ordinary one again.
const coolShare = 4

// entry is a key that is, or was a moment ago, asked for so often that it is
// worth leasing, under one rule.
type entry struct {
	hash uint64
	key  []byte
	rule store.Rule
	age  int64 // nanoseconds that a lease lasts at most

	// The grants: the newest, and what is left of the one before it, which is
	// spent first. So a new slice is taken while there still are units.
	newest, before atomic.Pointer[grant]

	planning  atomic.Bool  // a request is on its way with a slice; its owner has what is below
	remaining atomic.Int64 // as the store last said
	windowEnd atomic.Int64 // on the clock, as the store last said; of a bucket, nothing
	asked     atomic.Int64 // units that the store granted one request at a time
	touched   atomic.Int64 // when the store was last asked

	// All below is of who plans.
	since  int64 // when the use was last counted
	counts int64 // how much it was then
	slice  int64 // the last one; at first, what made the key hot
	cool   int64 // a lease that spends less makes the key an ordinary one

	mu      sync.Mutex
	granted int64  // units of all grants that came. Guarded by mu.
	unused  int64  // what was returned of them. Guarded by mu.
	epoch   uint32 // changes when the key is reset. Guarded by mu.
	gone    bool   // the entry is not in the table any more. Guarded by mu.
}

// newEntry returns the entry of a check's key that used so many units since.
func newEntry(hash uint64, c *store.Check, units, since, maxAge int64) *entry {
	e := &entry{hash: hash, key: bytes.Clone(c.Key), rule: *c.Rule, age: ageOf(c.Rule, maxAge), since: since, slice: units, cool: units / coolShare}
	e.asked.Store(units - c.Cost) // the last of them is still to be heard of
	return e
}

// ageShare is the part of its time, 1 of so many, in which a limit may be leased.
const ageShare = 8

// ageOf returns how long a lease lasts: maxAge, but no longer than a part of the
// window, so that what is left comes back while it counts; of a bucket, of the
// time in which it fills, so that not much of the burst is spent late.
func ageOf(rule *store.Rule, maxAge int64) int64 {
	full := int64(rule.Window)
	if rule.Algorithm == store.TokenBucket {
		scale := rule.Scale()
		full = scale.Capacity / scale.Rate * scale.Tick * int64(time.Microsecond) // at most 100 years
	}
	return min(maxAge, full/ageShare)
}

// of reports whether the entry is of a check's key and limit, whatever its numbers.
func (e *entry) of(hash uint64, c *store.Check) bool {
	return e.hash == hash && e.rule.ID() == c.Rule.ID() && bytes.Equal(e.key, c.Key)
}

// is reports whether the entry is of a check's key and rule.
func (e *entry) is(hash uint64, c *store.Check) bool {
	return e.hash == hash && bytes.Equal(e.key, c.Key) && e.rule == *c.Rule
}

// isLow reports whether it is time for the next slice.
func (e *entry) isLow(now int64) bool {
	g := e.newest.Load()
	return g == nil || now >= g.expires || g.left.Load() <= g.units/lowWater
}

// spend charges a cost to one of the grants, and returns it, or nil.
func (e *entry) spend(now, cost int64) *grant {
	if g := e.before.Load(); g != nil && g.spend(now, cost) {
		return g
	}
	if g := e.newest.Load(); g != nil && g.spend(now, cost) {
		return g
	}
	return nil
}

// held returns the units that the entry can still spend.
func (e *entry) held(now int64) int64 {
	return e.newest.Load().held(now) + e.before.Load().held(now)
}

// heard notes what the store said to a check of the key, without a slice.
func (e *entry) heard(now int64, c *store.Check, r *store.Result) {
	e.hear(r)
	if end := windowLeft(c.Rule, r); end > 0 {
		e.windowEnd.Store(now + end)
	}
	e.touched.Store(now)
	if r.Charged {
		e.asked.Add(c.Cost)
	}
}

// hear notes what remains by the store, if it said so of late.
func (e *entry) hear(r *store.Result) {
	if e != nil && !r.Cached {
		e.remaining.Store(r.Remaining)
	}
}

// windowLeft returns the nanoseconds until the window is over that a result was
// charged in: 0 for a bucket, or if it can't be told.
func windowLeft(rule *store.Rule, r *store.Result) int64 {
	switch rule.Algorithm {
	case store.FixedWindow:
		return int64(r.ResetAfter)
	case store.SlidingWindow: // it ends one window before nothing of it counts any more
		if r.Charged {
			return int64(r.ResetAfter - rule.Window)
		}
	}
	return 0
}

// used returns how many units the key has used at this process so far.
func (e *entry) used(now int64) int64 {
	e.mu.Lock()
	n := e.granted - e.unused
	e.mu.Unlock()
	return n - e.held(now) + e.asked.Load()
}

// idle reports whether nobody has needed the entry of late.
func (e *entry) idle(now, maxAge int64) bool {
	return e.newest.Load() == nil && e.before.Load() == nil && !e.planning.Load() && now-e.touched.Load() > 2*maxAge
}

// drop ends the grants without returning them.
func (e *entry) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch++
	for _, p := range [...]*atomic.Pointer[grant]{&e.newest, &e.before} {
		if g := p.Swap(nil); g != nil {
			e.unused += g.end()
			g.stop()
		}
	}
}

// retire has no grant come any more, for the entry can't be found.
func (e *entry) retire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = true
}

// current returns the epoch.
func (e *entry) current() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch
}
