package core

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// line is where a limiter's requests wait. It bounds how many of them there are,
// and how many of one key: unless Config.MaxWaitingPerKey says so, a key has at most
// as many places as are free, which leaves some for others however many one key
// wants (Choudhury and Hahne, "Dynamic queue length thresholds", 1998).
//
// While nobody waits, nobody locks it; and limits that let nobody wait never do.
type line struct {
	most   int64 // places
	perKey int64 // places of one key; 0 for as many as are free
	seed   maphash.Seed
	taken  atomic.Int64 // places. Written with mu held.
	left   atomic.Int64 // of these, places without a request. Written with mu held.

	mu     sync.Mutex
	lanes  map[uint64]lane       // of keys with taken places. Guarded by mu.
	vacant map[uint64][]*vacancy // places without a request, by call, the next turn first. Guarded by mu.
}

// lane is what a key has of the line.
type lane struct {
	taken int64         // places
	last  time.Time     // the latest turn of those who wait
	freed chan struct{} // has one for each slot of the key that has come back
}

// maxFreed is how many slots that came back at once are told of.
const maxFreed = 64

// spot is what a waiting request takes: one of the line's, and one of each key
// whose limit holds it up. The zero spot is none.
type spot struct {
	keys []uint64
}

func (p spot) taken() bool { return len(p.keys) > 0 }

// open makes a line as a limiter's configuration wants it.
func (l *line) open(config *Config) {
	l.most, l.perKey, l.seed = config.MaxWaiting, config.MaxWaitingPerKey, maphash.MakeSeed()
	if l.most == 0 {
		l.most = DefaultMaxWaiting
	}
	l.lanes, l.vacant = map[uint64]lane{}, map[uint64][]*vacancy{}
}

// spacing keeps the limits of one key apart.
const spacing = 0x9e3779b97f4a7c15

// key hashes a check's key and limit. Two that meet would be bounded together.
func (l *line) key(c *Check) uint64 {
	return maphash.Bytes(l.seed, c.Key) + uint64(c.Rule.ID())*spacing
}

// room returns how many places a key may have. l.mu is held.
func (l *line) room() int64 {
	if l.perKey > 0 {
		return l.perKey
	}
	return l.most - l.taken.Load()
}

// full returns the rule, if any, under which a request would have to queue and finds
// no place, and when the last of those in front of it has its turn. Nobody needs to
// ask the store, which would put the request behind them, but for limits that count
// their denials.
func (l *line) full(c *call, now time.Time) (rule *Rule, until time.Time) {
	if l.taken.Load() == 0 {
		return nil, until
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range c.checks {
		if check := &c.checks[i]; queues(check) {
			lane := l.lanes[l.key(check)]
			if lane.taken > 0 && lane.last.After(now) && (lane.taken >= l.room() || l.taken.Load() >= l.most) {
				return check.Rule, lane.last
			}
		}
	}
	return nil, until
}

// queues reports whether a check is behind all that came before it.
func queues(c *Check) bool {
	return c.Rule.Wait > 0 && c.Cost > 0 && c.Once == nil && !c.Shadow && !c.Rule.Penalized()
}

// enter takes a place for a request that has to wait until turn because of some of
// its checks. It reports false if there is none.
func (l *line) enter(at *spot, c *call, because []int, turn time.Time) bool {
	keys := make([]uint64, len(because))
	for n, i := range because {
		keys[n] = l.key(&c.checks[i])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken.Load() >= l.most {
		return false
	}
	for _, key := range keys {
		if l.lanes[key].taken >= l.room() {
			return false
		}
	}
	l.taken.Add(1)
	at.keys = keys
	for _, key := range keys {
		lane := l.lanes[key]
		if lane.taken++; lane.freed == nil {
			lane.freed = make(chan struct{}, maxFreed)
		}
		if turn.After(lane.last) {
			lane.last = turn
		}
		l.lanes[key] = lane
	}
	return true
}

// freed returns what tells those in the lane of a spot of slots that have come back.
func (l *line) freed(at spot) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lanes[at.keys[0]].freed
}

// free tells those who wait for slots that some have come back.
func (l *line) free(checks []Check) {
	if l.taken.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range checks {
		if checks[i].Rule.Algorithm != store.Concurrency {
			continue
		}
		freed := l.lanes[l.key(&checks[i])].freed
		for range min(checks[i].Cost, maxFreed) {
			select {
			case freed <- struct{}{}:
			default:
			}
		}
	}
}

// crowd returns how many requests wait in the fullest lane of a spot.
func (l *line) crowd(at spot) (n int64) {
	if !at.taken() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range at.keys {
		n = max(n, l.lanes[key].taken)
	}
	return n
}

// exit gives a place back, if it is one.
func (l *line) exit(p spot) {
	if !p.taken() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken.Add(-1)
	for _, key := range p.keys {
		lane := l.lanes[key]
		if lane.taken--; lane.taken == 0 {
			delete(l.lanes, key)
		} else {
			l.lanes[key] = lane
		}
	}
}
