package core

import "sync"

// minShardBuckets is the least that one of several shards holds: room for the
// longest sliding log, and enough for eviction to find a good victim.
const minShardBuckets = 2048

// shard is one part of a memory store: an open-addressing table of buckets with
// linear probing. Its slots hold no pointers, so that a million buckets cost the
// garbage collector nothing.
type shard struct {
	mu sync.Mutex

	// All below guarded by mu.
	slots  []slot // a power of two, or none yet
	count  int    // slots in use
	limit  int    // of count and the weight of logs together
	logs   logs
	doomed []victim // found by the last search for something to evict, best last
}

// place is where a bucket belongs: a key, by its hash, and a limit.
type place struct {
	hash  uint64
	check uint32 // more bits of the hash
	id    uint32 // Rule.ID
}

// slot is a bucket as the table keeps it: one cache line.
type slot struct {
	place
	expires int64
	x, y    int64 // y is the index of a sliding log's entries
	unit    int64
	rate    int64
	meta    uint64 // 0 for a free slot: burst << 16 | tick << 8 | algorithm
}

const maxMetaBurst = 1<<48 - 1

func (s *slot) algorithm() Algorithm { return Algorithm(s.meta) }
func (s *slot) burst() int64         { return int64(s.meta >> 16) }
func (s *slot) form() form {
	return form{s.algorithm(), ticks[uint8(s.meta>>8)], s.unit, s.rate}
}

func meta(f form, burst int64) uint64 {
	tick := 0
	for ticks[tick] != f.tick {
		tick++
	}
	return uint64(min(burst, maxMetaBurst))<<16 | uint64(tick)<<8 | uint64(f.algorithm)
}

// home is the slot that a place is looked for from. The limits of one key lie
// some way apart, or they would be each other's neighbours in every probe.
func (s *shard) home(p *place) int {
	return int((p.hash+uint64(p.id)*0x9e3779b97f4a7c15)>>40) & (len(s.slots) - 1)
}

func (s *shard) find(p *place) (index int, found bool) {
	if len(s.slots) == 0 {
		return 0, false
	}
	mask := len(s.slots) - 1
	for i := s.home(p); ; i = (i + 1) & mask {
		if s.slots[i].meta == 0 {
			return i, false
		}
		if s.slots[i].place == *p {
			return i, true
		}
	}
}

// get reads a bucket; one that is not there reads as unused.
func (s *shard) get(p *place, b *bucket) {
	i, found := s.find(p)
	if !found {
		*b = bucket{}
		return
	}
	s.bucket(&s.slots[i], b)
}

func (s *shard) bucket(slot *slot, b *bucket) {
	*b = bucket{expires: slot.expires, x: slot.x, y: slot.y, form: slot.form()}
	if b.form.algorithm == SlidingLog {
		b.log, b.y = s.logs.entries[slot.y], 0
	}
}

// put stores a bucket, making room for it if there is none.
func (s *shard) put(p *place, b *bucket, burst, now int64) {
	s.makeRoom(p, b, now)
	i, found := s.find(p)
	if !found {
		s.count++
		s.slots[i] = slot{place: *p}
	}
	slot := &s.slots[i]
	y := b.y
	if hadLog := found && slot.algorithm() == SlidingLog; b.form.algorithm == SlidingLog {
		if hadLog {
			y = slot.y
		} else {
			y = s.logs.acquire()
		}
		s.logs.set(y, b.log)
	} else if hadLog {
		s.logs.release(slot.y)
	}
	slot.expires, slot.x, slot.y = b.expires, b.x, y
	slot.unit, slot.rate, slot.meta = b.form.unit, b.form.rate, meta(b.form, burst)
}

// makeRoom sees to it that b can be stored at p: by growing the table or,
// at the limit, by evicting others.
func (s *shard) makeRoom(p *place, b *bucket, now int64) {
	i, found := s.find(p)
	growth := 0
	if !found {
		growth = 1
	}
	if b.form.algorithm == SlidingLog {
		growth += logWeight(b.log)
		if found && s.slots[i].algorithm() == SlidingLog {
			growth -= logWeight(s.logs.entries[s.slots[i].y])
		}
	}
	for growth > 0 && s.count+s.logs.weight+growth > s.limit {
		if !s.evict(p, now) {
			break // p is alone: a log larger than its shard is bounded by its quota
		}
	}
	if !found && (s.count+1)*8 > len(s.slots)*7 {
		s.grow(now)
	}
}

// grow drops the buckets that have expired and, if that leaves the table more
// than half full, doubles it.
func (s *shard) grow(now int64) {
	live := 0
	for i := range s.slots {
		if s.slots[i].meta != 0 && s.slots[i].expires > now {
			live++
		}
	}
	size := max(len(s.slots), 8)
	if live*2 >= len(s.slots) && len(s.slots) > 0 {
		size *= 2
	}
	old := s.slots
	s.slots, s.count = make([]slot, size), 0
	for i := range old {
		switch {
		case old[i].meta == 0:
		case old[i].expires > now:
			j, _ := s.find(&old[i].place)
			s.slots[j] = old[i]
			s.count++
		case old[i].algorithm() == SlidingLog:
			s.logs.release(old[i].y)
		}
	}
}

func (s *shard) remove(p *place) {
	i, found := s.find(p)
	if !found {
		return
	}
	if s.slots[i].algorithm() == SlidingLog {
		s.logs.release(s.slots[i].y)
	}
	s.count--
	// Close the gap, or probes would stop at it: each follower moves up unless
	// the gap lies before its home.
	mask := len(s.slots) - 1
	for j := i; ; {
		j = (j + 1) & mask
		if s.slots[j].meta == 0 {
			break
		}
		home := s.home(&s.slots[j].place)
		if (j-home)&mask >= (j-i)&mask {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot{}
}

// logs holds the entries of a shard's sliding logs, apart from the pointer-free slots.
type logs struct {
	entries [][]logEntry
	free    []int64 // indexes of entries
	weight  int     // sum of logWeight over entries
}

// logWeight is how many buckets a log's memory is worth.
func logWeight(log []logEntry) int { return (len(log) + 3) / 4 }

func (l *logs) acquire() int64 {
	if last := len(l.free) - 1; last >= 0 {
		i := l.free[last]
		l.free = l.free[:last]
		return i
	}
	l.entries = append(l.entries, nil)
	return int64(len(l.entries) - 1)
}

func (l *logs) set(i int64, log []logEntry) {
	l.weight += logWeight(log) - logWeight(l.entries[i])
	l.entries[i] = log
}

func (l *logs) release(i int64) {
	l.set(i, nil)
	l.free = append(l.free, i)
}
