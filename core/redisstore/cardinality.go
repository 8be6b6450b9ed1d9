package redisstore

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
)

// spreads know of each limit about how many different keys it has been asked for:
// a limit for all clients of one, a limit for each client of many.
type spreads struct{ byLimit sync.Map } // of ids to *spread

// spread counts different keys, in the way of HyperLogLog: a register holds the
// longest run of leading zeros among the hashes that fall to it (Flajolet and
// others, "HyperLogLog", 2007). Its sum grows with the number of keys, which is
// all that is asked of it. The hash is random, so no client can make it up.
type spread struct {
	registers [64]atomic.Uint32
	sum       atomic.Int64
}

// meet notes the key of a check, and returns a number that is the larger the more
// different keys its limit has.
func (s *spreads) meet(c *store.Check) int64 {
	found, ok := s.byLimit.Load(c.Rule.ID())
	if !ok {
		found, _ = s.byLimit.LoadOrStore(c.Rule.ID(), new(spread))
	}
	return found.(*spread).meet(maphash.Bytes(hashSeed, c.Key))
}

func (s *spread) meet(hash uint64) int64 {
	register := &s.registers[hash>>58]
	run := uint32(bits.LeadingZeros64(hash<<6|1<<5)) + 1
	for known := register.Load(); run > known; known = register.Load() {
		if register.CompareAndSwap(known, run) {
			gain := int64(run - known)
			if known == 0 {
				gain = spreadFew // how many registers are in use says most as long as they are few
			}
			return s.sum.Add(gain)
		}
	}
	return s.sum.Load()
}

// spreadFew is what a register in use counts: more than a run is long.
const spreadFew = 64
