package core

import (
	"hash/maphash"
	"sync"
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
	bucket    bucket
	reading   Reading
	fits      bool
	converted bool
}

// visits are reused, since a call has to look at all its buckets before it may
// change any of them.
var visits = sync.Pool{New: func() any { return new([]visit) }}

// locate finds where a check's bucket belongs. The limits of one key share a
// shard, but lie some way apart in it, or they would be each other's neighbours
// in every probe.
func (m *Memory) locate(v *visit, c *Check) {
	v.hash = maphash.Bytes(m.seeds[0], c.Key) + uint64(c.Rule.id)*0x9e3779b97f4a7c15
	v.check = uint32(maphash.Bytes(m.seeds[1], c.Key))
	v.number = int(v.check) & (len(m.shards) - 1)
	v.shard = &m.shards[v.number]
	v.offset = c.Rule.Offset(c.Key)
}

// open reads the bucket. The caller has locked the shard.
func (v *visit) open() { v.index, v.found = v.shard.get(v.place, &v.bucket) }

// judge brings the bucket to now and says whether the check fits into it.
func (v *visit) judge(c *Check, now int64) {
	v.converted = c.Rule.open(&v.bucket, now, v.offset)
	c.Rule.readInto(&v.bucket, now, c.Cost, &v.reading)
	v.fits = c.Rule.fits(c.Cost, &v.reading)
}

// settle charges the check if it is granted, and stores what has changed.
func (v *visit) settle(c *Check, now int64, granted bool) {
	v.reading.Charged = granted
	charged := granted && c.Cost > 0
	if charged {
		c.Rule.charge(&v.bucket, now, c.Cost)
		c.Rule.readInto(&v.bucket, now, c.Cost, &v.reading)
	}
	if charged || v.converted {
		v.save(c.Rule, now)
	}
}

// save stores the bucket, or nothing if it is worth nothing.
func (v *visit) save(rule *Rule, now int64) {
	if !v.alone {
		v.index, v.found = v.shard.find(v.place)
	}
	if !v.bucket.unused() {
		v.shard.put(v.place, v.index, v.found, &v.bucket, rule.whole(), now)
	} else if v.found {
		v.shard.remove(v.index)
	}
}
