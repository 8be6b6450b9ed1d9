package memstore

import (
	"hash/maphash"
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

// visit is a check on its way through a memory store: where its bucket is, what
// it holds and what comes of it.
type visit struct {
	place
	shard     *shard
	number    int   // of the shard
	index     int   // where find says the bucket is
	found     bool  // it is there
	alone     bool  // no other check of the call can move it
	offset    int64 // of the key's windows
	bucket    store.Bucket
	reading   store.Reading
	fits      bool
	converted bool
	repeated  bool   // the check's operation was charged before
	mark      uint64 // the hash of that operation's mark, if the check has one
}

// visits are reused, since a call has to look at all its buckets before it may
// change any of them.
var visits = sync.Pool{New: func() any { return new([]visit) }}

// spacing keeps the limits of one key apart in their shard.
const spacing = 0x9e3779b97f4a7c15

// locate finds where a check's bucket belongs. The limits of one key share a
// shard, but lie some way apart in it, or they would be each other's neighbours
// in every probe.
func (m *Store) locate(v *visit, rule *store.Rule, key []byte) {
	v.hash = maphash.Bytes(m.seeds[0], key) + uint64(rule.ID())*spacing
	v.check = uint32(maphash.Bytes(m.seeds[1], key))
	v.number = int(v.check) & (len(m.shards) - 1)
	v.shard = &m.shards[v.number]
	v.offset = rule.Offset(key)
}

// locateWithMark is locate for a check that may have a mark, too.
func (m *Store) locateWithMark(v *visit, c *store.Check) {
	m.locate(v, c.Rule, c.Key)
	if c.Once != nil {
		v.mark = m.markOf(v.hash, c)
	}
}

// open reads the bucket. The caller has locked the shard.
func (v *visit) open() { v.index, v.found = v.shard.get(v.place, &v.bucket) }

// judge brings the bucket to now and says whether the check fits into it.
func (v *visit) judge(rule *store.Rule, cost, now int64) {
	v.converted = v.bucket.Open(rule, now, v.offset)
	v.bucket.Read(rule, now, cost, &v.reading)
	v.fits = rule.Fits(cost, &v.reading)
}

// cost returns what the check takes: nothing, of a repeated operation.
func (v *visit) cost(c *store.Check) int64 {
	if v.repeated {
		return 0
	}
	return c.Cost
}

// settle charges the check if it is granted, and stores what has changed.
func (v *visit) settle(rule *store.Rule, cost, now int64, granted bool) {
	v.reading.Charged = granted && !v.repeated
	charged := v.reading.Charged && cost > 0
	if charged {
		v.bucket.Charge(rule, now, cost)
		v.bucket.Read(rule, now, cost, &v.reading)
	}
	if charged || v.converted {
		v.save(rule, now)
	}
}

// save stores the bucket, or nothing if it is worth nothing.
func (v *visit) save(rule *store.Rule, now int64) {
	if !v.alone {
		v.index, v.found = v.shard.find(v.place)
	}
	if !v.bucket.Unused() {
		v.shard.put(v.place, v.index, v.found, &v.bucket, rule.Whole, now)
	} else if v.found {
		v.shard.remove(v.index)
	}
}
