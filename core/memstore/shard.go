package memstore

import (
	"math/bits"
	"sync"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// minShardBuckets is the smallest bound of a shard, unless there is only one: it has room
// for the longest sliding log, and enough buckets for eviction to find a good victim.
const minShardBuckets = 2048

// maxShards keeps shards, and so searches for victims, small in stores of up to 16 million
// buckets. 4096 empty shards take 512 KB.
const maxShards = 4096

// shard is one part of a store: an open-addressing table of buckets with linear probing.
// Its slots hold no pointers, so the garbage collector does not scan them. A shard is
// exactly two cache lines, so that neighbouring shards share none; each decision needs
// only the first.
type shard struct {
	mu sync.Mutex

	// All below guarded by mu.
	slots   []slot
	count   int32 // slots in use, at most 7/8 of them
	weight  int32 // memory of the logs, in buckets
	limit   int32 // bound of count + weight
	spare   int16 // slots that a new table has beyond those its buckets need
	manual  bool  // whether there can be a block by hand: without one, nobody looks for it
	latest  int64 // time of the last call, in microseconds since the epoch: see Store.time
	logs    logs
	victims []victim // found by the last search, best last
}

// place is where a bucket belongs: a hash of its key and limit.
type place struct {
	hash  uint64
	check uint32 // more bits, of the key alone
}

// slot is a counting.Bucket in 48 bytes. No algorithm needs Y, the rate and a log at the
// same time, so they share a field.
type slot struct {
	hash    uint64
	check   uint32
	kind    kind // 0 for a free slot
	expires int64
	x       int64
	third   int64 // token bucket: rate; sliding log and concurrency: index of the log; others: Y
	unit    int64
}

func (s *slot) holds(p place) bool {
	return s.hash == p.hash && s.check == p.check && s.kind != 0
}

// isLive reports whether a table is to keep the bucket of the slot.
func (s *slot) isLive(now int64) bool {
	b := counting.Bucket{Expires: s.expires, Form: counting.Form{Algorithm: s.kind.algorithm()}}
	return b.KeptUntil() > now
}

func (s *slot) place() place { return place{s.hash, s.check} }

// home is the slot at which the search for a hash begins: the hash scaled to the length
// of the table, which need not be a power of two.
func (s *shard) home(hash uint64) int {
	i, _ := bits.Mul64(hash, uint64(len(s.slots)))
	return int(i)
}

// find returns the slot of a place, or the free slot where it belongs. A table that has
// slots has a free one, so the search ends.
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

// get reads the bucket of a place. A bucket that is not there reads as unused.
func (s *shard) get(p place, b *counting.Bucket) (index int, found bool) {
	index, found = s.find(p)
	if found {
		s.read(&s.slots[index], b)
	} else {
		b.Expires = 0
	}
	return index, found
}

func (s *shard) read(slot *slot, b *counting.Bucket) {
	b.Expires, b.X, b.Y = slot.expires, slot.x, 0
	b.Form.Algorithm, b.Form.Tick = slot.kind.algorithm(), slot.kind.tick()
	b.Form.Unit, b.Form.Rate = slot.unit, 1
	switch b.Form.Algorithm { // the cases of put
	case store.TokenBucket:
		b.Form.Rate = slot.third
	case store.SlidingLog, store.Concurrency:
		b.Log = s.logs.books[slot.third].entries
	default:
		b.Y = slot.third
	}
}

// put stores a bucket, and makes room for it if there is none. i and found are what find
// returned for p. It reports whether an index that find returned for another place may be
// wrong now.
func (s *shard) put(p place, i int, found bool, b *counting.Bucket, burst, now int64) (moved bool) {
	isLog, size := counting.IsLog(b.Form.Algorithm), 0
	if isLog {
		b.Log, size = s.trim(i, found, b.Log)
	}
	if (!found || isLog) && s.makeRoom(p, i, found, isLog, size, now) {
		i, found = s.find(p)
	}
	slot := &s.slots[i]
	hadLog := found && counting.IsLog(slot.kind.algorithm())
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
		s.considerVictim(slot, now)
	}
	if (isLog || hadLog) && s.logs.sparse() {
		s.renumber()
	}
	return !found || isLog
}

// makeRoom makes room for a bucket, and for a log of size entries, at p. It grows the
// table or, at the limit, evicts others. It reports whether a bucket has moved.
func (s *shard) makeRoom(p place, i int, found, isLog bool, size int, now int64) (moved bool) {
	growth := 0
	if !found {
		growth = 1
	}
	if isLog {
		growth += logWeight(size)
		if found && counting.IsLog(s.slots[i].kind.algorithm()) {
			growth -= logWeight(s.logs.books[s.slots[i].third].size)
		}
	}
	for growth > 0 && int(s.count)+int(s.weight)+growth > int(s.limit) {
		if !s.evict(p, now) {
			break // p is the only bucket; a log larger than its shard is bounded by its quota
		}
		moved = true
	}
	if !found && int(s.count+1)*8 > len(s.slots)*7 || growth > 0 && len(s.slots) > s.mostSlots(growth)+int(s.limit)/16 {
		s.rebuild(now)
		moved = true
	}
	return moved
}

// mostSlots returns the length that the table may have, given the memory of the logs and
// growth buckets more.
func (s *shard) mostSlots(growth int) int {
	return max(int(s.limit)-int(s.weight)-growth, int(s.count)+1)*8/7 + int(s.spare)
}

// rebuild drops expired buckets and moves the others to a new table. It is 7/10 full, or
// as long as the limit allows, which is 7/8 full at the limit.
func (s *shard) rebuild(now int64) {
	live := int32(0)
	s.manual = false
	for i := range s.slots {
		if s.slots[i].kind != 0 && s.slots[i].isLive(now) {
			live++
			s.manual = s.manual || s.slots[i].kind.algorithm() == counting.ManualRecord
		}
	}
	old := s.slots
	s.count = live
	s.slots = make([]slot, min(int(live)*10/7+int(s.spare), s.mostSlots(0)))
	for i := range old {
		switch slot := &old[i]; {
		case slot.kind == 0:
		case slot.isLive(now):
			j, _ := s.find(slot.place())
			s.slots[j] = *slot
		case counting.IsLog(slot.kind.algorithm()):
			s.releaseLog(slot.third)
		}
	}
}

// remove frees slot i and closes the gap, at which searches would stop: each slot that
// follows moves into the gap unless the gap lies before its home.
func (s *shard) remove(i int) {
	if counting.IsLog(s.slots[i].kind.algorithm()) {
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

// forget removes the bucket of a place, if there is one.
func (s *shard) forget(p place) {
	if i, found := s.find(p); found {
		s.remove(i)
	}
}

// distance returns the number of slots from i to j, around the end of the table.
func (s *shard) distance(i, j int) int {
	if j < i {
		return j - i + len(s.slots)
	}
	return j - i
}
