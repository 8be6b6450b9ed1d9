package prefetch

// A hot key: its slices, and what is known of its use at this process and of what
// the store has left.

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// coolShare: a key is an ordinary one again when it is used less than 1/coolShare as
// much as when it became hot.
const coolShare = 4

// hotKey is a key, under one rule, that is asked for so often that slices of its
// quota are worth taking. Requests read and spend it without a lock.
type hotKey struct {
	// Never change.
	hash     uint64
	key      []byte
	rule     store.Rule
	lifetime int64 // how long a slice lasts at most, in nanoseconds

	// The slices: the newest, and what is left of the one before it, which is spent
	// first. So a new slice is taken while there still are units. They change while
	// mu is held.
	newest, older atomic.Pointer[slice]

	// planning is a lock that nobody waits for. Its holder is the one request that
	// takes a slice, or the timer that decides whether the key is still hot. It guards
	// the four fields below.
	planning     atomic.Bool
	countedAt    int64 // when the use was last counted, on the clock
	countedUnits int64 // what used() returned then
	demand       int64 // units per lifetime by that count; at first, what made the key hot
	coolBelow    int64 // a lower use makes the key an ordinary one

	remaining    atomic.Int64 // as the store last said
	windowEnd    atomic.Int64 // on the clock, as the store last said; 0 for a bucket
	storeGranted atomic.Int64 // units that the store granted one request at a time
	lastAsked    atomic.Int64 // when the store was last asked, on the clock

	mu         sync.Mutex
	prefetched int64  // units of all slices that came. Guarded by mu.
	unspent    int64  // units of these that were left over. Guarded by mu.
	epoch      uint32 // how often the key was reset. Guarded by mu.
	removed    bool   // the key is not in the table any more. Guarded by mu.
}

// newHotKey returns the hot key of a check. Its requests used so many units since.
func newHotKey(hash uint64, c *store.Check, units, since, maxAge int64) *hotKey {
	k := &hotKey{hash: hash, key: bytes.Clone(c.Key), rule: *c.Rule, lifetime: lifetimeOf(c.Rule, maxAge), countedAt: since, demand: units, coolBelow: units / coolShare}
	k.storeGranted.Store(units - c.Cost) // noteAnswer adds the last request
	return k
}

// lifetimeShare: a slice lasts for at most 1/lifetimeShare of its limit's window.
const lifetimeShare = 8

// lifetimeOf returns how long a slice lasts: maxAge, but no longer than a part of
// the window, so that what is left comes back while it counts. For a bucket it is a
// part of the time in which it fills, so that little of the burst is spent late.
func lifetimeOf(rule *store.Rule, maxAge int64) int64 {
	full := int64(rule.Window)
	if rule.Algorithm == store.TokenBucket {
		ints := rule.Integers
		full = ints.Capacity / ints.Rate * ints.Tick * int64(time.Microsecond) // at most 100 years
	}
	return min(maxAge, full/lifetimeShare)
}

// isOfLimit reports whether k has a check's key and limit, whatever its numbers.
func (k *hotKey) isOfLimit(hash uint64, c *store.Check) bool {
	return k.hash == hash && k.rule.ID() == c.Rule.ID() && bytes.Equal(k.key, c.Key)
}

// isOfRule reports whether k has a check's key and rule.
func (k *hotKey) isOfRule(hash uint64, c *store.Check) bool {
	return k.hash == hash && bytes.Equal(k.key, c.Key) && k.rule == *c.Rule
}

// isLow reports whether it is time to take the next slice.
func (k *hotKey) isLow(now int64) bool {
	s := k.newest.Load()
	return s == nil || now >= s.expires || s.left.Load() <= s.units/lowWater
}

// spend charges a cost to one of the slices, and returns that, or nil.
func (k *hotKey) spend(now, cost int64) *slice {
	if s := k.older.Load(); s != nil && s.spend(now, cost) {
		return s
	}
	if s := k.newest.Load(); s != nil && s.spend(now, cost) {
		return s
	}
	return nil
}

// held returns the units that can still be spent.
func (k *hotKey) held(now int64) int64 {
	return k.newest.Load().held(now) + k.older.Load().held(now)
}

// noteAnswer notes what the store said to a check of the key without a slice.
func (k *hotKey) noteAnswer(now int64, c *store.Check, r *store.Result) {
	k.noteRemaining(r)
	if end := windowLeft(c.Rule, r); end > 0 {
		k.windowEnd.Store(now + end)
	}
	k.lastAsked.Store(now)
	if r.Charged {
		k.storeGranted.Add(c.Cost)
	}
}

// noteRemaining notes what the store has left, unless the answer is an old one. k
// may be nil.
func (k *hotKey) noteRemaining(r *store.Result) {
	if k != nil && !r.Cached {
		k.remaining.Store(r.Remaining)
	}
}

// windowLeft returns the nanoseconds until the end of the window that a result was
// charged in. It returns 0 for a bucket, and if the result does not say.
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
func (k *hotKey) used(now int64) int64 {
	k.mu.Lock()
	n := k.prefetched - k.unspent
	k.mu.Unlock()
	return n - k.held(now) + k.storeGranted.Load()
}

// idle reports whether nobody has needed the key recently.
func (k *hotKey) idle(now, maxAge int64) bool {
	return k.newest.Load() == nil && k.older.Load() == nil && !k.planning.Load() && now-k.lastAsked.Load() > 2*maxAge
}

// dropSlices ends the slices without returning their units. A slice that is on its
// way is not used either.
func (k *hotKey) dropSlices() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.epoch++
	for _, at := range [...]*atomic.Pointer[slice]{&k.newest, &k.older} {
		if s := at.Swap(nil); s != nil {
			k.unspent += s.end()
			s.stopTimer()
		}
	}
}

// retire keeps further slices from a key that nobody can find any more.
func (k *hotKey) retire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed = true
}

func (k *hotKey) currentEpoch() uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.epoch
}
