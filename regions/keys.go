package regions

import (
	"hash/maphash"
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

// key is what the process knows of one key that is above its floor, in the present period.
type key struct {
	used bool // asked for since the last sweep. Guarded by keyShard.mu.

	mu sync.Mutex // all below is guarded by it; nobody waits for a server while holding it

	plan  *plan       // of the request that was last above the floor
	ends  int64       // of the period, by the region's clock: microseconds since the epoch; 0 before it is known
	until int64       // when it ends at the latest, on the process's clock
	share int64       // units that the region has leased for the period
	spend *store.Rule // of the record of those that were spent; nil while there are none to spend
	left  int64       // of the units to spend, as the region last said

	floorTil int64 // until when the floor has nothing left, on the process's clock

	pool     int64 // units that home had left, as it last said
	poolAt   int64 // when it said so, on the process's clock
	knowsOf  bool  // home has been asked in this period
	emptyTil int64 // until when home is not asked, since it had nothing, on the process's clock
	fullTil  int64 // when home has units again, as it last said, on the process's clock; 0 if it did not

	looking  bool     // at the share, in the background
	lookedAt int64    // when the region's store was last asked for the share, on the process's clock
	open     question // to home, that was not answered
	lease    *lease   // that is on its way, or nil
	size     int64    // of the last lease
	leasedAt int64    // when it was asked for, on the process's clock
	asked    int64    // units that requests have asked for since then, granted or not
	lately   float64  // units that requests have asked for, each counted less the longer ago that was
	latelyAt int64    // as of when, on the process's clock
	before   int64    // units per period that requests asked for in the period before
	inPeriod int64    // units that requests have asked for in this period
}

// begin has the period that ends at a time begin, unless it has begun already. k.mu is held.
func (k *key) begin(ends, until int64) {
	k.until = until
	if k.ends == ends {
		return
	}
	k.before = k.inPeriod
	if k.ends == 0 {
		k.before = 0
	}
	k.ends, k.share, k.spend, k.left = ends, 0, nil, 0
	k.knowsOf = k.knowsOf && k.plan.flows() // or else the pool begins anew
	k.emptyTil, k.fullTil, k.size, k.leasedAt, k.asked, k.inPeriod = 0, 0, 0, 0, 0, 0
	k.open = question{} // what was charged for it is of a window that is over
}

// end notes that the period which ends at a time is over. k.mu is held.
func (k *key) end(ends int64) {
	if k.ends == ends {
		k.until = 0
	}
}

// setShare notes how many units the region has leased for the period. They become fewer if an operator resets the key.
// k.mu is held.
func (k *key) setShare(p *plan, share int64) {
	total := share + p.mode.Overdraft
	switch {
	case k.spend != nil && k.spend.Burst == total:
		return
	case total <= 0:
		k.share, k.spend, k.left = 0, nil, 0
		return
	}
	rule, err := p.spend(k.ends, total)
	if err != nil {
		return // more units than can be counted
	}
	before := int64(0)
	if k.spend != nil {
		before = k.spend.Burst
	}
	k.left = max(k.left+total-before, 0)
	k.share, k.spend = share, rule
}

// isEmpty reports whether home is not to be asked, since it has nothing left. k.mu is held.
func (k *key) isEmpty(now int64) bool { return now < k.emptyTil }

// keys holds the keys that are above their floor, up to a bound. It is safe for concurrent use.
type keys struct {
	seed   maphash.Seed
	shards [keyShards]keyShard
	most   int // keys in a shard
}

const keyShards = 64

type keyShard struct {
	mu sync.Mutex
	of map[keyID]*key // Guarded by mu.
}

// keyID names a key under a limit. The key itself is in it: a hash could stand for two.
type keyID struct {
	limit uint64 // plan.id
	key   string
}

func (k *keys) init(most int) {
	k.seed = maphash.MakeSeed()
	k.most = max(most/keyShards, 1)
	for i := range k.shards {
		k.shards[i].of = make(map[keyID]*key)
	}
}

func (k *keys) shard(name []byte) *keyShard {
	return &k.shards[maphash.Bytes(k.seed, name)%keyShards]
}

// find returns what is known of a key, or nil.
func (k *keys) find(limit uint64, name []byte) *key {
	s := k.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of[keyID{limit, string(name)}] // without a copy
	if found != nil {
		found.used = true
	}
	return found
}

// get is find, and begins to remember a key that is not known.
func (k *keys) get(limit uint64, name []byte) *key {
	if found := k.find(limit, name); found != nil {
		return found
	}
	s := k.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := keyID{limit, string(name)}
	if found := s.of[id]; found != nil {
		return found
	}
	if len(s.of) >= k.most {
		s.sweep(k.most)
	}
	made := &key{used: true}
	s.of[id] = made
	return made
}

// sweep forgets the keys that nobody has asked for since the last sweep, or an eighth of them if there are none. What
// is forgotten costs a question to the region, when the key is next asked for. s.mu is held.
func (s *keyShard) sweep(most int) {
	for id, k := range s.of {
		if !k.used {
			delete(s.of, id)
		}
		k.used = false
	}
	for id := range s.of { // in no order
		if len(s.of) <= most-most/8 {
			break
		}
		delete(s.of, id)
	}
}

// forget forgets what is known of a key under a limit.
func (k *keys) forget(limit uint64, name []byte) {
	s := k.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, keyID{limit, string(name)})
}

// named is a key with its name.
type named struct {
	id  keyID
	key *key
}

// all returns the keys that are remembered.
func (k *keys) all() (all []named) {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		for id, of := range s.of {
			all = append(all, named{id, of})
		}
		s.mu.Unlock()
	}
	return all
}

// expire forgets the keys whose period has long been over, and returns how many there still are.
func (k *keys) expire(now int64) (left int) {
	for _, of := range k.all() {
		of.key.mu.Lock()
		over := of.key.lease == nil && now > of.key.until+int64(longestPeriod)
		of.key.mu.Unlock()
		if over {
			k.forget(of.id.limit, []byte(of.id.key))
		} else {
			left++
		}
	}
	return left
}

// len returns how many keys are remembered.
func (k *keys) len() int {
	n := 0
	for i := range k.shards {
		k.shards[i].mu.Lock()
		n += len(k.shards[i].of)
		k.shards[i].mu.Unlock()
	}
	return n
}
