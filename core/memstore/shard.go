package memstore

import (
	"math"
	"math/bits"
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

// minShardBuckets is the least that one of several shards holds: room for the
// longest sliding log, and enough for eviction to find a good victim.
const minShardBuckets = 2048

// maxShards is many enough for a search through one to be short in all stores
// of up to 16 million buckets, and few enough to cost nothing while empty.
const maxShards = 4096

// shard is one part of a memory store: an open-addressing table of buckets with
// linear probing. Its slots hold no pointers, so that a million buckets cost the
// garbage collector nothing. It takes two cache lines, or processors that use
// neighbours would wait for each other.
type shard struct {
	mu sync.Mutex

	// All below guarded by mu.
	slots  []slot
	count  int32 // slots in use, at most 7/8 of them
	weight int32 // of the logs, in buckets
	limit  int32 // of count and weight together
	spare  int32 // slots that a new table has beyond what its buckets ask for
	latest int64 // when the last call decided: see Store.time
	logs   logs
	doomed []victim // found by the last search for something to evict, best last
}

// place is where a bucket belongs: a hash of its key and limit.
type place struct {
	hash  uint64
	check uint32 // more bits, of the key alone
}

// slot is a bucket as the table keeps it, in 48 bytes: the third of a bucket's
// numbers, and the rate, are needed by no algorithm at once.
type slot struct {
	hash    uint64
	check   uint32
	kind    kind // 0 for a free slot
	expires int64
	x       int64
	third   int64 // token bucket: rate; logs: the index of the entries; others: y
	unit    int64
}

func (s *slot) holds(p place) bool {
	return s.hash == p.hash && s.check == p.check && s.kind != 0
}

func (s *slot) place() place { return place{s.hash, s.check} }

// kind is what a slot knows of its rule beside numbers: burst, tick and
// algorithm, the burst as a float32 whose last five bits are the other two. Of the
// algorithm's number three bits are kept: 8 is the one that has none of them set.
type kind uint32

const (
	kindBits      = 5
	kindAlgorithm = 1<<3 - 1
)

// The bits are full: a ninth algorithm does not compile here, or it would read back as
// the first. Take a bit more from the burst then: it need not be exact.
const _ = uint(kindAlgorithm + 1 - store.LastAlgorithm)

// ticks are those of [store.Scale].
var ticks = [...]int64{1, 1000, 1_000_000}

func newKind(f *store.Form, burst int64) kind {
	tick := 0
	for ticks[tick] != f.Tick {
		tick++
	}
	return kind(math.Float32bits(roughly(burst))) | kind(tick)<<3 | kind(f.Algorithm)&kindAlgorithm
}

func (k kind) algorithm() store.Algorithm { return store.Algorithm((k-1)&kindAlgorithm + 1) }
func (k kind) tick() int64                { return ticks[k>>3&3] }
func (k kind) burst() float32             { return math.Float32frombits(uint32(k >> kindBits << kindBits)) }

// roughly returns units as a kind remembers them: what is not less than a burst
// is not less than it after both were made rough.
func roughly(units int64) float32 {
	return math.Float32frombits(math.Float32bits(float32(units)) >> kindBits << kindBits)
}

// home is the slot that a place is looked for from: its hash, scaled to the
// table's length, which thus need not be a power of two.
func (s *shard) home(hash uint64) int {
	i, _ := bits.Mul64(hash, uint64(len(s.slots)))
	return int(i)
}

// find returns where a place is, or the free slot where it would be. The table
// has one, if it has any slots.
func (s *shard) find(p place) (index int, found bool) {
	if len(s.slots) == 0 {
		return 0, false
	}
	for i := s.home(p.hash); ; {
		switch slot := &s.slots[i]; {
		case slot.holds(p):
			return i, true
		case slot.kind == 0:
			return i, false
		}
		if i++; i == len(s.slots) {
			i = 0
		}
	}
}

// get reads the bucket of a place; one that is not there reads as unused.
func (s *shard) get(p place, b *store.Bucket) (index int, found bool) {
	index, found = s.find(p)
	if found {
		s.read(&s.slots[index], b)
	} else {
		b.Expires = 0
	}
	return index, found
}

func (s *shard) read(slot *slot, b *store.Bucket) {
	b.Expires, b.X, b.Y = slot.expires, slot.x, 0
	b.Form.Algorithm, b.Form.Tick = slot.kind.algorithm(), slot.kind.tick()
	b.Form.Unit, b.Form.Rate = slot.unit, 1
	switch b.Form.Algorithm {
	case store.TokenBucket:
		b.Form.Rate = slot.third
	case store.SlidingWindow, store.PenaltyRecord:
		b.Y = slot.third
	case store.SlidingLog, store.Concurrency:
		b.Log = s.logs.books[slot.third].entries
	}
}

// put stores a bucket, making room for it if there is none. The place is what
// find says of it.
func (s *shard) put(p place, i int, found bool, b *store.Bucket, burst, now int64) (moved bool) {
	isLog, size := b.Form.Algorithm.IsLog(), 0
	if isLog {
		b.Log, size = s.trim(i, found, b.Log)
	}
	if (!found || isLog) && s.makeRoom(p, i, found, isLog, size, now) {
		i, found = s.find(p)
	}
	slot := &s.slots[i]
	hadLog := found && slot.kind.algorithm().IsLog()
	if hadLog && !isLog {
		s.releaseLog(slot.third)
	} else if !hadLog && isLog {
		slot.third = s.logs.acquire()
	}
	switch b.Form.Algorithm {
	case store.TokenBucket:
		slot.third = b.Form.Rate
	case store.SlidingLog, store.Concurrency:
		s.setLog(slot.third, b.Log, size)
	default:
		slot.third = b.Y
	}
	slot.expires, slot.x, slot.unit = b.Expires, b.X, b.Form.Unit
	slot.kind = newKind(&b.Form, burst)
	if !found {
		slot.hash, slot.check = p.hash, p.check
		s.count++
		s.offer(slot, now)
	}
	if (isLog || hadLog) && s.logs.sparse() {
		s.renumber()
	}
	return !found || isLog
}

// makeRoom sees to it that a bucket, or a log of a size, can be stored at p: by
// rebuilding the table or, at the limit, by evicting others. It reports whether that
// moved any bucket.
func (s *shard) makeRoom(p place, i int, found, isLog bool, size int, now int64) (moved bool) {
	growth := 0
	if !found {
		growth = 1
	}
	if isLog {
		growth += logWeight(size)
		if found && s.slots[i].kind.algorithm().IsLog() {
			growth -= logWeight(s.logs.books[s.slots[i].third].size)
		}
	}
	for growth > 0 && int(s.count+s.weight)+growth > int(s.limit) {
		if !s.evict(p, now) {
			break // p is alone: a log larger than its shard is bounded by its quota
		}
		moved = true
	}
	if !found && int(s.count+1)*8 > len(s.slots)*7 || growth > 0 && len(s.slots) > s.mostSlots(growth)+int(s.limit)/16 {
		s.rebuild(now)
		moved = true
	}
	return moved
}

// mostSlots returns how long a table may be beside the logs, and others that take
// as much as growth buckets: what they take can't be taken by buckets any more.
func (s *shard) mostSlots(growth int) int {
	return max(int(s.limit-s.weight)-growth, int(s.count)+1)*8/7 + int(s.spare)
}

// rebuild drops the buckets that have expired and makes a table that those left
// fill to 7/10, or that the limit fills to 7/8.
func (s *shard) rebuild(now int64) {
	live := int32(0)
	for i := range s.slots {
		if s.slots[i].kind != 0 && s.slots[i].expires > now {
			live++
		}
	}
	old := s.slots
	s.count = live
	s.slots = make([]slot, min(int(live)*10/7+int(s.spare), s.mostSlots(0)))
	for i := range old {
		switch slot := &old[i]; {
		case slot.kind == 0:
		case slot.expires > now:
			j, _ := s.find(slot.place())
			s.slots[j] = *slot
		case slot.kind.algorithm().IsLog():
			s.releaseLog(slot.third)
		}
	}
}

// remove frees the slot of the given index, and closes the gap, or probes would
// stop at it: each follower moves up unless the gap lies before its home.
func (s *shard) remove(i int) {
	if s.slots[i].kind.algorithm().IsLog() {
		s.releaseLog(s.slots[i].third)
	}
	s.count--
	for j := i; ; {
		if j++; j == len(s.slots) {
			j = 0
		}
		if s.slots[j].kind == 0 {
			break
		}
		if s.distance(s.home(s.slots[j].hash), j) >= s.distance(i, j) {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot{}
}

// forget removes what is at a place, if anything is.
func (s *shard) forget(p place) {
	if i, found := s.find(p); found {
		s.remove(i)
	}
}

// distance returns how many slots after i a probe reaches j.
func (s *shard) distance(i, j int) int {
	if j < i {
		return j - i + len(s.slots)
	}
	return j - i
}
