package core

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// waitlist holds the places of a limiter's waiting requests. It bounds how many
// there are in all and for each key. Without Config.MaxWaitingPerKey a key gets at
// most as many places as are still free, so that no key takes them all (Choudhury
// and Hahne, "Dynamic queue length thresholds", 1998).
//
// The lock is not taken while nobody waits. Limiters whose limits never wait don't
// touch the waitlist at all.
type waitlist struct {
	capacity     int64 // places. Guarded by mu.
	perKey       int64 // places of one key; 0 for as many as are free. Guarded by mu.
	seed         maphash.Seed
	taken        atomic.Int64 // places, abandoned ones included. Written with mu held.
	numAbandoned atomic.Int64 // places. Written with mu held.

	mu        sync.Mutex
	keys      map[uint64]keyQueue          // of keys with taken places, by keyHash. Guarded by mu.
	abandoned map[uint64][]*abandonedPlace // by callHash, the next turn first. Guarded by mu.
}

// keyQueue is the part of the waitlist that belongs to one key under one limit.
type keyQueue struct {
	taken    int64         // places
	lastTurn time.Time     // of the requests that wait
	rule     *Rule         // that this turn is by
	wakeup   chan struct{} // receives one value for each slot of the key that is given back
	line     *fairLine     // of the requests that wait by share; nil if there are none
}

// maxWakeups bounds how many slots that are given back at once wake requests.
const maxWakeups = 64

// place is what a waiting request occupies: one place in all, and one in the queue of
// each key whose limit delays it. The zero place is none.
type place struct {
	keys   []uint64
	waiter *waiter // in the line of the last of them, if that has one
}

func (p place) taken() bool { return len(p.keys) > 0 }

func newWaitlist(capacity, perKey int64) *waitlist {
	w := &waitlist{seed: maphash.MakeSeed(), keys: map[uint64]keyQueue{}, abandoned: map[uint64][]*abandonedPlace{}}
	w.resize(capacity, perKey)
	return w
}

// resize sets the bounds, those of Config. Requests beyond lower ones keep their places.
func (w *waitlist) resize(capacity, perKey int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.capacity, w.perKey = capacity, perKey
	if w.capacity == 0 {
		w.capacity = defaultMaxWaiting
	}
}

// ruleSpacing keeps the hashes of one key under several limits apart.
const ruleSpacing = 0x9e3779b97f4a7c15

// keyHash hashes a check's key and limit. Two keys that collide share their bound.
func (w *waitlist) keyHash(c *Check) uint64 {
	return maphash.Bytes(w.seed, c.Key) + c.Rule.ID()*ruleSpacing
}

// keyCapacity returns how many places a key may have. w.mu is held.
func (w *waitlist) keyCapacity() int64 {
	if w.perKey > 0 {
		return w.perKey
	}
	return w.capacity - w.taken.Load()
}

// full returns the rule, if any, under which a request would have to queue without
// finding a place, and the last turn in front of it. The store need not be asked: it
// would put the request behind all others, if they wait by the numbers that the limit has now. Limits that count their denials are not
// looked at, since the store has to see each of their requests.
func (w *waitlist) full(c *call, now time.Time) (rule *Rule, until time.Time) {
	if w.taken.Load() == 0 {
		return nil, until
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range c.checks {
		if check := &c.checks[i]; queues(check) {
			q := w.keys[w.keyHash(check)]
			if q.taken > 0 && q.lastTurn.After(now) && *q.rule == *check.Rule && (q.taken >= w.keyCapacity() || w.taken.Load() >= w.capacity) {
				return check.Rule, q.lastTurn
			}
		}
	}
	return nil, until
}

// queues reports whether the store would put a check behind all earlier ones.
func queues(c *Check) bool {
	return c.Rule.Wait > 0 && c.Cost > 0 && c.Once == nil && !c.Shadow && !c.Rule.Penalized()
}

// join takes a place for a request that waits until turn because of some of its
// checks. It reports false if there is none.
func (w *waitlist) join(p *place, c *call, because []int, turn time.Time) bool {
	keys := make([]uint64, len(because))
	for n, i := range because {
		keys[n] = w.keyHash(&c.checks[i])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken.Load() >= w.capacity {
		return false
	}
	for _, key := range keys {
		if w.keys[key].taken >= w.keyCapacity() {
			return false
		}
	}
	w.taken.Add(1)
	p.keys = keys
	for n, key := range keys {
		q := w.keys[key]
		if q.taken++; q.wakeup == nil {
			q.wakeup = make(chan struct{}, maxWakeups)
		}
		if turn.After(q.lastTurn) {
			q.lastTurn, q.rule = turn, c.checks[because[n]].Rule
		}
		w.keys[key] = q
	}
	return true
}

// leave gives a place back, unless it is the zero place.
func (w *waitlist) leave(p place) {
	if !p.taken() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.waiter != nil {
		if p.waiter.lost {
			p.keys = p.keys[:len(p.keys)-1]
			w.taken.Add(1) // it was given back for the other's
		} else {
			p.waiter.line.gone(p.waiter)
		}
	}
	w.taken.Add(-1)
	for _, key := range p.keys {
		q := w.keys[key]
		if q.taken--; q.taken == 0 {
			delete(w.keys, key)
		} else {
			w.keys[key] = q
		}
		if q.line != nil {
			q.line.left(q.taken)
		}
	}
}

// wakeup returns the channel that receives a value for each slot that is given back
// to the first of a place's keys.
func (w *waitlist) wakeup(p place) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys[p.keys[0]].wakeup
}

// wake wakes requests that wait for the slots that these checks have given back.
func (w *waitlist) wake(checks []Check) {
	if w.taken.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range checks {
		if checks[i].Rule.Algorithm != store.Concurrency {
			continue
		}
		q := w.keys[w.keyHash(&checks[i])]
		if q.line != nil {
			q.line.freed(checks[i].Cost, checks[i].Rule)
		}
		wakeup := q.wakeup
		for range min(checks[i].Cost, maxWakeups) {
			select {
			case wakeup <- struct{}{}:
			default:
			}
		}
	}
}

// waiting returns how many requests wait.
func (w *waitlist) waiting() int64 { return max(w.taken.Load()-w.numAbandoned.Load(), 0) }

// longestQueue returns how many requests wait in the longest queue of a place.
func (w *waitlist) longestQueue(p place) (n int64) {
	if !p.taken() {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range p.keys {
		n = max(n, w.keys[key].taken)
	}
	return n
}
