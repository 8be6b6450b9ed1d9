package redisstore

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	denialWays   = 8    // entries that a request can be in
	denialChecks = 4    // checks of a request that is kept
	denialEpochs = 1024 // groups of client keys that are forgotten together
)

// denials are requests that Redis denied a moment ago. Entries are not changed
// once they are there, so that readers need no lock.
type denials struct {
	age     int64 // nanoseconds
	seeds   [2]maphash.Seed
	ways    []atomic.Pointer[denial] // sets of denialWays
	last    atomic.Int64             // when the last denial ends that was kept: none is in use after it
	changed [denialEpochs]atomic.Uint32
}

// denial is what Redis said to a request.
type denial struct {
	request  request
	received int64 // on the monotonic clock
	until    int64 // the same: from then on Redis has to be asked
	epoch    uint32
	used     atomic.Bool // it has saved a call
	results  [denialChecks]store.Result
}

// request is a hash of checks with their keys and numbers.
type request [2]uint64

// newDenials returns the cache, or nil if it is switched off.
func newDenials(config DenialCache) *denials {
	if config.Disabled {
		return nil
	}
	return &denials{
		age:   int64(config.Age),
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		ways:  make([]atomic.Pointer[denial], config.Size/denialWays*denialWays),
	}
}

// asking is when a request is sent, as far as the cache is concerned.
type asking struct {
	sent  int64
	epoch uint32
	ends  int64 // when the denial ends that it has found or, of several, the first: one made of these ends then; 0 if there is none
}

// within returns the asking of a request of which b is a part.
func (a asking) within(b asking) asking {
	if b.ends != 0 && (a.ends == 0 || b.ends < a.ends) {
		a.ends = b.ends
	}
	return a
}

// find looks for a denial of the checks. It reports true, and fills in the
// results, if one still holds; else what it returns is for keep.
func (d *denials) find(checks []store.Check, results []store.Result) (asking, bool) {
	if d == nil || len(checks) > denialChecks || mustAsk(checks) {
		return asking{}, false
	}
	now := monotonic()
	a := asking{sent: now, epoch: d.epoch(checks)}
	if now >= d.last.Load() {
		return a, false
	}
	r := d.request(checks)
	set := d.set(r)
	for i := range set {
		e := set[i].Load()
		if e == nil || e.request != r {
			continue
		}
		if now >= e.until || e.epoch != a.epoch {
			return a, false
		}
		passed := time.Duration(now - e.received).Truncate(time.Microsecond)
		for j := range checks {
			results[j] = later(&e.results[j], passed)
		}
		if !isDenied(checks, results) {
			clear(results)
			return a, false
		}
		if !e.used.Load() {
			e.used.Store(true)
		}
		a.ends = e.until
		return a, true
	}
	return a, false
}

// mustAsk reports whether only Redis knows: of an operation that may have been
// charged, and of a limit that counts its denials.
func mustAsk(checks []store.Check) bool {
	for i := range checks {
		if checks[i].Once != nil || checks[i].Rule.Penalized() {
			return true
		}
	}
	return false
}

// later returns a result as it is some time later, if nobody charges the bucket in
// between: a shorter wait. What remains is what remained.
func later(r *store.Result, passed time.Duration) store.Result {
	l := *r
	l.Cached = true
	l.At += passed.Microseconds()
	l.ResetAfter = max(l.ResetAfter-passed, 0)
	if !l.Allowed && l.RetryAfter > 0 {
		l.RetryAfter = max(l.RetryAfter-passed, 0)
		l.Window = l.RetryAfter
		l.Allowed = l.RetryAfter == 0
	}
	return l
}

// keep remembers that Redis denied what was asked.
func (d *denials) keep(a asking, checks []store.Check, results []store.Result) {
	if d == nil || a.sent == 0 {
		return
	}
	hold := int64(0) // how long the request stays denied, at least
	for i := range results {
		if !results[i].Allowed && !checks[i].Shadow && checks[i].Rule.Algorithm != store.Concurrency {
			hold = max(hold, int64(results[i].RetryAfter))
			if results[i].RetryAfter == 0 { // no wait helps
				hold = d.age
			}
		}
	}
	if hold == 0 {
		return // for want of a slot
	}
	r := d.request(checks)
	e := &denial{request: r, received: monotonic(), until: a.sent + min(hold, d.age), epoch: a.epoch}
	if a.ends != 0 {
		e.until = min(e.until, a.ends)
	}
	copy(e.results[:], results)
	way := d.room(r, e.received)
	if way == nil {
		return
	}
	if old := way.Load(); old != nil && old.request == r {
		e.used.Store(old.used.Load())
	}
	way.Store(e)
	for {
		last := d.last.Load()
		if e.until <= last || d.last.CompareAndSwap(last, e.until) {
			return
		}
	}
}

// room returns where a denial can go: the place of its predecessor, or of one
// that nobody needs. A denial in use keeps its place for one age after it has
// ended, since its client is likely to be denied again.
func (d *denials) room(r request, now int64) *atomic.Pointer[denial] {
	set := d.set(r)
	var free *atomic.Pointer[denial]
	for i := range set {
		e := set[i].Load()
		switch {
		case e != nil && e.request == r:
			return &set[i]
		case e == nil, !e.used.Load() && (free == nil || now >= e.until), now >= e.until+d.age:
			free = &set[i]
		}
	}
	return free
}

// request hashes all that a decision depends on.
func (d *denials) request(checks []store.Check) request {
	b := make([]byte, 0, 512)
	for i := range checks {
		c := &checks[i]
		scale := c.Rule.Scale()
		shadow := uint64(0)
		if c.Shadow {
			shadow = 1
		}
		for _, n := range [...]uint64{
			uint64(len(c.Key)), uint64(c.Rule.ID()), uint64(c.Rule.Algorithm), uint64(scale.Tick), uint64(scale.Unit),
			uint64(scale.Rate), uint64(scale.Capacity), uint64(c.Cost), shadow,
		} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		b = append(b, c.Key...)
	}
	return request{maphash.Bytes(d.seeds[0], b), maphash.Bytes(d.seeds[1], b)}
}

func (d *denials) set(r request) []atomic.Pointer[denial] {
	n := int(r[0]>>1) % (len(d.ways) / denialWays) * denialWays
	return d.ways[n : n+denialWays]
}

// epoch changes when anything is given back to or taken from the checks' keys.
func (d *denials) epoch(checks []store.Check) (sum uint32) {
	for i := range checks {
		sum = sum*31 + d.epochOf(checks[i].Key).Load()
	}
	return sum
}

func (d *denials) epochOf(key []byte) *atomic.Uint32 {
	return &d.changed[maphash.Bytes(d.seeds[0], key)%denialEpochs]
}

// forget drops the denials of the checks' keys. Slots come and go with each
// request, and no denial that is kept depends on them.
func (d *denials) forget(checks []store.Check) {
	if d == nil {
		return
	}
	for i := range checks {
		if checks[i].Rule.Algorithm != store.Concurrency {
			d.epochOf(checks[i].Key).Add(1)
		}
	}
}
