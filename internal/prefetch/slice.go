package prefetch

import "sync/atomic"

// ended is what is left of a grant that is over: no cost fits, and none is put back.
const ended = -1 << 62

// grant is a slice that the store has charged. Its fields do not change but left.
type grant struct {
	left     atomic.Int64 // units; far below 0 when it is over
	units    int64        // at first
	expires  int64        // on the clock
	received int64        // on the clock: when it came, or a moment after
	at       int64        // when it was charged, by the store
	worth    bool         // something can be returned when it is over

	// What the store said then, with all units charged.
	remaining int64
	reset     int64 // microseconds
	stop      func()
}

// spend takes units, if there are as many.
func (g *grant) spend(now, units int64) bool {
	if now >= g.expires {
		return false
	}
	for {
		left := g.left.Load()
		if left < units {
			return false
		}
		if g.left.CompareAndSwap(left, left-units) {
			return true
		}
	}
}

// add undoes a spend. It reports false if the grant is over.
func (g *grant) add(units int64) bool {
	for {
		left := g.left.Load()
		if left < 0 {
			return false
		}
		if g.left.CompareAndSwap(left, left+units) {
			return true
		}
	}
}

// held returns the units that can still be spent.
func (g *grant) held(now int64) int64 {
	if g == nil || now >= g.expires {
		return 0
	}
	return max(g.left.Load(), 0)
}

// end ends the grant, and returns what was left: 0 if it had ended before.
func (g *grant) end() int64 { return max(g.left.Swap(ended), 0) }
