package prefetch

// A slice of a key's quota, and the atomic count of its units. Any number of
// requests spend it at once without a lock.

import "sync/atomic"

// ended is the number of units left of a slice that is over. It is so far below 0
// that no cost fits, and putBack finds it whatever is added.
const ended = -1 << 62

// slice is units that the store has charged ahead. All fields but left are set
// before other goroutines see it, and never change.
type slice struct {
	left         atomic.Int64 // units that can be spent; below 0 when the slice is over
	units        int64        // what left was at first
	expires      int64        // on the clock
	received     int64        // on the clock: when the store's answer came, or a moment after
	chargedAt    int64        // by the store's clock, in microseconds since the epoch
	lastOfWindow bool         // it ends with its fixed window: what is left by then is no use to anybody

	// What the store said of the key then, with all units charged.
	remaining  int64
	resetAfter int64 // microseconds

	stopTimer func() // stops the timer of expires
}

// spend takes units, if there are as many.
func (s *slice) spend(now, units int64) bool {
	if now >= s.expires {
		return false
	}
	for {
		left := s.left.Load()
		if left < units {
			return false
		}
		if s.left.CompareAndSwap(left, left-units) {
			return true
		}
	}
}

// putBack undoes a spend. It reports false if the slice is over.
func (s *slice) putBack(units int64) bool {
	for {
		left := s.left.Load()
		if left < 0 {
			return false
		}
		if s.left.CompareAndSwap(left, left+units) {
			return true
		}
	}
}

// held returns the units that can still be spent. A nil slice has none.
func (s *slice) held(now int64) int64 {
	if s == nil || now >= s.expires {
		return 0
	}
	return max(s.left.Load(), 0)
}

// end ends the slice, and returns what was left. That is 0 if it had ended before,
// so units are returned once.
func (s *slice) end() int64 { return max(s.left.Swap(ended), 0) }
