package redisstore

// The denial cache: requests that Redis denied a moment ago are denied again
// without asking it. See [DenialCache] for what that promises.

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

const (
	denialWays   = 8    // places that a request can be cached in
	denialChecks = 4    // checks of a request that is cached, at most
	denialEpochs = 1024 // groups of client keys that are forgotten together
)

// denialCache holds requests that Redis denied. All methods may be called
// concurrently, and with a nil cache, which holds nothing. Entries never change once
// they are in the cache, except for used, so readers need no lock.
type denialCache struct {
	age    int64                          // nanoseconds
	seeds  [2]maphash.Seed                // of fingerprints
	ways   []atomic.Pointer[cachedDenial] // sets of denialWays
	last   atomic.Int64                   // when the last entry expires: after that there is nothing to find
	epochs [denialEpochs]atomic.Uint32    // by a hash of the client key; see epoch

	listener *listener
	notice   uint8 // of takes, for that age
}

// cachedDenial is what Redis said to a request.
type cachedDenial struct {
	request  fingerprint
	received int64 // on the monotonic clock
	expires  int64 // on the monotonic clock: from then on Redis has to be asked
	epoch    uint32
	used     atomic.Bool // it has saved a call
	blocked  bool        // because of a block, which can be lifted at any moment
	results  [denialChecks]store.Result
}

// fingerprint identifies checks by all that a decision depends on. 128 bits with
// random seeds, since no two requests may share one.
type fingerprint [2]uint64

// newDenialCache returns the cache, or nil if it is switched off.
func newDenialCache(config DenialCache, l *listener) *denialCache {
	if config.Disabled {
		return nil
	}
	return &denialCache{
		listener: l,
		age:      int64(config.Age),
		notice:   script.NoticeFor(config.Age),
		seeds:    [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		ways:     make([]atomic.Pointer[cachedDenial], config.Size/denialWays*denialWays),
	}
}

// lookup is what find knew when it looked for a request. keep needs it, to cache
// nothing that has changed since.
type lookup struct {
	sent  int64  // when, on the monotonic clock; 0 if the request is not to be cached
	epoch uint32 // of the checks' keys

	// expires is when the denial that was found expires, or the first one of several. A
	// denial that is derived from it expires with it. 0 if none was found.
	expires int64
}

// limitedBy returns the lookup of a request to which part belongs: what is derived
// from both expires with the first.
func (l lookup) limitedBy(part lookup) lookup {
	if part.expires != 0 && (l.expires == 0 || part.expires < l.expires) {
		l.expires = part.expires
	}
	return l
}

// find looks for a denial of the checks. If there is one, it fills in the results and
// reports true. If not, the lookup is for keep.
func (d *denialCache) find(checks []store.Check, results []store.Result) (lookup, bool) {
	if d == nil || len(checks) > denialChecks {
		return lookup{}, false
	}
	special := isSpecial(checks)
	if special && (anyOnce(checks) || anyShared(checks)) {
		return lookup{}, false // it may have been charged already, which only Redis knows
	}
	now := monotonic()
	l := lookup{sent: now, epoch: d.epoch(checks)}
	if now >= d.last.Load() {
		return l, false // before any hash is computed
	}
	if special && !d.listener.hears.Load() {
		return l, false // a block can be lifted at any moment
	}
	request := d.fingerprint(checks)
	set := d.set(request)
	for i := range set {
		e := set[i].Load()
		if e == nil || e.request != request {
			continue
		}
		if now >= e.expires || e.epoch != l.epoch || e.blocked && !d.listener.hears.Load() {
			return l, false
		}
		// The answer may have arrived after the time was read.
		passed := time.Duration(max(now-e.received, 0)).Truncate(time.Microsecond)
		for k := range checks {
			results[k] = afterTime(&e.results[k], passed)
			(&counting.Reading{}).Tell(&checks[k]) // the denial is of an earlier state
		}
		if counting.AnyChoice(checks) {
			counting.PassOver(checks, results[:len(checks)])
		}
		if !isDenied(checks, results) {
			clear(results)
			return l, false
		}
		if !e.used.Load() { // a read is cheaper than a write that all processors see
			e.used.Store(true)
		}
		l.expires = e.expires
		return l, true
	}
	return l, false
}

// isSpecial reports whether there are rules of their own for caching the checks, which most requests
// need not look at: anyOnce, anyPenalized or anyShared.
func isSpecial(checks []store.Check) bool {
	for i := range checks {
		if checks[i].Once != nil || checks[i].Rule.Penalized() || checks[i].Share != nil {
			return true
		}
	}
	return false
}

// isBlocked reports whether a block has denied a check.
func isBlocked(results []store.Result) bool {
	return slices.ContainsFunc(results, func(r store.Result) bool { return r.Blocked })
}

func anyOnce(checks []store.Check) bool {
	return slices.ContainsFunc(checks, func(c store.Check) bool { return c.Once != nil })
}

// anyShared reports whether clients divide a limit of the checks. What one of them is denied can be within its share a moment later.
func anyShared(checks []store.Check) bool {
	return slices.ContainsFunc(checks, func(c store.Check) bool { return c.Share != nil })
}

// afterTime returns a result as it is some time later, if nobody charges the bucket in
// between. Waits are shorter; what remains is what remained.
func afterTime(r *store.Result, passed time.Duration) store.Result {
	later := *r
	later.Cached = true
	later.At += passed.Microseconds()
	later.ResetAfter = max(later.ResetAfter-passed, 0)
	if !later.Allowed && later.RetryAfter > 0 {
		later.RetryAfter = max(later.RetryAfter-passed, 0)
		later.Window = later.RetryAfter
		later.Allowed = later.RetryAfter == 0
	}
	return later
}

// keepDenial caches the denial of a request, and listens to what would end it early. blocked is
// for how many nanoseconds all limits of the request that have a penalty are blocked.
func (s *Store) keepDenial(l lookup, checks []store.Check, results []store.Result, blocked int64) {
	if s.denials == nil || l.sent == 0 {
		return
	}
	longest := s.denials.age
	if anyPenalized(checks) {
		if blocked == 0 {
			return // denials count towards a block
		}
		longest = min(longest, blocked)
	}
	if isBlocked(results) && !s.denials.listener.hears.Load() {
		longest = 0 // also of a block by hand, under limits without a penalty
	}
	if longest == 0 || s.denials.keep(l, checks, results, longest) {
		s.denials.listener.wake(s)
	}
}

// keep caches the denial of a request, for as long as it is certain and no longer than longest,
// and reports whether it has. That of an account which the store does not know is over as soon as
// the account is restored.
func (d *denialCache) keep(l lookup, checks []store.Check, results []store.Result, longest int64) bool {
	certain := int64(0) // how long the request stays denied, at least
	for i := range results {
		if results[i].Unknown {
			return false
		}
		if counting.IsDenial(&checks[i], &results[i]) && !hasSlots(checks, i) {
			certain = max(certain, int64(results[i].RetryAfter))
			if results[i].RetryAfter == 0 { // waiting does not help
				certain = d.age
			}
		}
	}
	if certain == 0 {
		return false // denied by concurrency limits only: a slot can become free at any moment
	}
	request := d.fingerprint(checks)
	e := &cachedDenial{request: request, received: monotonic(), expires: l.sent + min(certain, longest), epoch: l.epoch, blocked: isBlocked(results)}
	if l.expires != 0 {
		e.expires = min(e.expires, l.expires)
	}
	copy(e.results[:], results)
	place := d.placeFor(request, e.received)
	if place == nil {
		return false
	}
	if old := place.Load(); old != nil && old.request == request {
		e.used.Store(old.used.Load())
	}
	place.Store(e)
	for {
		last := d.last.Load()
		if e.expires <= last || d.last.CompareAndSwap(last, e.expires) {
			return true
		}
	}
}

// hasSlots reports whether a check or one of its alternatives is of a concurrency limit: then a slot that becomes free ends the
// denial.
func hasSlots(checks []store.Check, i int) bool {
	start, end := counting.ChoiceOf(checks, i)
	return slices.ContainsFunc(checks[start:end], func(c store.Check) bool { return c.Rule.Algorithm == store.Concurrency })
}

// placeFor returns where a denial can go, or nil: the place of an older denial of the
// request, or one that nobody needs. A denial in use keeps its place for one age after
// it has expired, since its client is likely to be denied again. So a flood of keys
// that are used once displaces only its own denials.
func (d *denialCache) placeFor(request fingerprint, now int64) *atomic.Pointer[cachedDenial] {
	set := d.set(request)
	var free *atomic.Pointer[cachedDenial]
	for i := range set {
		e := set[i].Load()
		switch {
		case e != nil && e.request == request:
			return &set[i]
		case e == nil, !e.used.Load() && (free == nil || now >= e.expires), now >= e.expires+d.age:
			free = &set[i]
		}
	}
	return free
}

// fingerprint hashes all that a decision on the checks depends on.
func (d *denialCache) fingerprint(checks []store.Check) fingerprint {
	b := make([]byte, 0, 512)
	for i := range checks {
		c := &checks[i]
		ints := c.Rule.Integers
		shadow := uint64(0)
		if c.Shadow {
			shadow = 1
		}
		if c.Or {
			shadow += 2
		}
		for _, n := range [...]uint64{
			uint64(len(c.Key)), c.Rule.ID(), uint64(c.Rule.Algorithm), uint64(ints.Tick), uint64(ints.Unit),
			uint64(ints.Rate), uint64(ints.Capacity), uint64(c.Cost), shadow,
		} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		b = append(b, c.Key...)
	}
	return fingerprint{maphash.Bytes(d.seeds[0], b), maphash.Bytes(d.seeds[1], b)}
}

// set returns the places of a request.
func (d *denialCache) set(request fingerprint) []atomic.Pointer[cachedDenial] {
	n := int(request[0]%uint64(len(d.ways)/denialWays)) * denialWays // int last: it can have 32 bits
	return d.ways[n : n+denialWays]
}

// epoch returns a number that changes when units are given back to the checks' keys or
// taken from them. A denial of another epoch is out of date.
func (d *denialCache) epoch(checks []store.Check) (sum uint32) {
	for i := range checks {
		sum = sum*31 + d.epochOf(checks[i].Key).Load()
	}
	return sum
}

func (d *denialCache) epochOf(key []byte) *atomic.Uint32 {
	return &d.epochs[maphash.Bytes(d.seeds[0], key)%denialEpochs]
}

// forget makes the denials of the checks' keys out of date. Concurrency slots come and
// go with each request, and no cached denial depends on them; one can depend on a block, of which
// forgetBlocked knows.
func (d *denialCache) forget(checks []store.Check) {
	if d == nil {
		return
	}
	for i := range checks {
		if checks[i].Rule.Algorithm != store.Concurrency || checks[i].Rule.Penalized() {
			d.epochOf(checks[i].Key).Add(1)
		}
	}
}

// forgetKey makes the denials of a key out of date.
func (d *denialCache) forgetKey(key string) {
	d.epochs[maphash.String(d.seeds[0], key)%denialEpochs].Add(1)
}

// forgetAll makes all denials out of date.
func (d *denialCache) forgetAll() {
	for i := range d.epochs {
		d.epochs[i].Add(1)
	}
}
