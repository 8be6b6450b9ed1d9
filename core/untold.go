package core

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// untold knows the keys of which the local store has granted something that the store has not
// been told of: one entry for each limit and key. A decision pays one atomic read while there
// is no entry, and a hash and two more reads while there are entries of other keys.
//
// An entry without a grant does no harm: whoever finds it looks at the local store, which knows.
// A grant without an entry would never be told. So a grant is made first and noted afterwards, and
// while grants are read, none of the same part is noted.
type untold struct {
	inUse atomic.Int64                            // how many parts have entries
	parts atomic.Pointer[[untoldParts]untoldPart] // nil until there was an outage
}

const (
	untoldParts = 256

	// untoldKeys bounds the entries of a part, and all entries together to some 1 MB. If an
	// outage had more clients, their part is full: all its keys are looked up in the local store.
	untoldKeys = 128

	// untoldBits is how many bits a part's filter has: so many that few of them are set.
	untoldBits = 8 * untoldKeys
)

// untoldPart has the entries of the keys with one hash, modulo the number of parts.
type untoldPart struct {
	// filter has a bit set for each entry, or all of them while the part is full. Written with
	// mu held.
	filter [untoldBits / 64]atomic.Uint64

	mu   sync.Mutex
	keys map[uint64]untoldKey // by the hash of limit and key. Guarded by mu.
	full int64                // until when the part counts as full; 0 if it is not. Guarded by mu.
}

// untoldKey says what may have been granted under one limit to one key.
type untoldKey struct {
	until int64 // when that stops to count, in nanoseconds of the local store's clock

	// most is the largest burst that it was granted under. One limit has several if it has tiers
	// or classes of requests, and one with a smaller burst may not see all that was granted.
	most int64
}

// untoldSeed is random, so that no client can choose keys of one hash.
var untoldSeed = maphash.MakeSeed()

// untoldHash returns the hash of a limit's key. Two keys of one hash would be told as one; with 64
// bits there are none.
func untoldHash(rule *Rule, key []byte) uint64 {
	return maphash.Bytes(untoldSeed, key) ^ rule.ID()*0x9e3779b97f4a7c15
}

// bitOf returns the place of an entry's bit in the filter of its part.
func bitOf(hash uint64) (word int, mask uint64) {
	bit := hash / untoldParts % untoldBits
	return int(bit / 64), 1 << (bit % 64)
}

// any reports whether there is any entry.
func (u *untold) any() bool { return u.inUse.Load() > 0 }

// has reports whether there may be grants of a limit's key.
func (u *untold) has(rule *Rule, key []byte) bool {
	parts := u.parts.Load()
	if parts == nil {
		return false
	}
	hash := untoldHash(rule, key)
	p := &parts[hash%untoldParts]
	if word, mask := bitOf(hash); p.filter[word].Load()&mask == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.keys[hash]
	return known || p.full > 0
}

// add notes a grant that counts for a time from now on, in nanoseconds of the local store's clock.
func (u *untold) add(rule *Rule, key []byte, now int64, lasts time.Duration) {
	parts := u.parts.Load()
	if parts == nil {
		u.parts.CompareAndSwap(nil, new([untoldParts]untoldPart))
		parts = u.parts.Load()
	}
	hash := untoldHash(rule, key)
	p := &parts[hash%untoldParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	before, until := p.inUse(), now+int64(lasts)
	if p.keys == nil {
		p.keys = make(map[uint64]untoldKey)
	}
	known, ok := p.keys[hash]
	if !ok && len(p.keys) >= untoldKeys {
		p.sweep(now)
	}
	if ok || len(p.keys) < untoldKeys {
		p.keys[hash] = untoldKey{max(known.until, until), max(known.most, rule.Burst)}
		word, mask := bitOf(hash)
		p.filter[word].Or(mask)
	} else {
		p.full = max(p.full, until)
		for i := range p.filter {
			p.filter[i].Store(^uint64(0))
		}
	}
	if !before {
		u.inUse.Add(1)
	}
}

// tell has read read the grants of a limit's key, if there may be any, and removes the entry if
// read returns fewer units than the rule can see: they are all. No two goroutines read those of one
// key at a time.
func (u *untold) tell(rule *Rule, key []byte, now int64, read func() (units int64)) {
	parts := u.parts.Load()
	if parts == nil {
		return
	}
	hash := untoldHash(rule, key)
	p := &parts[hash%untoldParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.inUse() {
		return
	}
	if p.full > 0 && p.full <= now {
		p.full = 0
	}
	known := p.keys[hash]
	all := true
	if known.until > now || p.full > 0 {
		all = read() < rule.Burst || known.most <= rule.Burst
	}
	if all {
		delete(p.keys, hash)
	}
	p.setFilter()
	if !p.inUse() {
		p.keys = nil
		u.inUse.Add(-1)
	}
}

// inUse reports whether some key of the part is to be looked up. p.mu is held.
func (p *untoldPart) inUse() bool { return len(p.keys) > 0 || p.full > 0 }

// sweep removes entries whose grants have stopped to count. p.mu is held.
func (p *untoldPart) sweep(now int64) {
	for hash, key := range p.keys {
		if key.until <= now {
			delete(p.keys, hash)
		}
	}
	if p.full <= now {
		p.full = 0
	}
	p.setFilter()
}

// setFilter sets the bits of the entries, and no others. p.mu is held.
func (p *untoldPart) setFilter() {
	if p.full > 0 {
		return // all are set
	}
	var bits [len(p.filter)]uint64
	for hash := range p.keys {
		word, mask := bitOf(hash)
		bits[word] |= mask
	}
	for i := range bits {
		p.filter[i].Store(bits[i])
	}
}
