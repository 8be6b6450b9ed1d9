package redisstore

// How many different keys each limit has, roughly: one for a limit that all clients
// share, many for a limit for each client. It decides the order in which slots are
// asked.

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
)

// cardinalities holds one cardinality per limit.
type cardinalities struct{ byLimit sync.Map } // from the limit's id to *cardinality

// cardinality estimates how many different keys there are, in the way of
// HyperLogLog: a register holds the longest run of leading zeros among the hashes
// that fall to it (Flajolet and others, "HyperLogLog", 2007). Here the sum of the
// registers suffices, since it grows with the number of keys. The hash has a random
// seed, so no client can make keys up that look like many.
type cardinality struct {
	registers [64]atomic.Uint32
	sum       atomic.Int64
}

// firstGain is what a register counts for being in use. It is more than the longest
// run, since as long as few registers are in use, their number says most.
const firstGain = 64

// observe notes the key of a check, and returns a number that is the larger the more
// different keys the check's limit has.
func (c *cardinalities) observe(check *store.Check) int64 {
	found, ok := c.byLimit.Load(check.Rule.ID())
	if !ok {
		found, _ = c.byLimit.LoadOrStore(check.Rule.ID(), new(cardinality))
	}
	return found.(*cardinality).observe(maphash.Bytes(hashSeed, check.Key))
}

func (c *cardinality) observe(hash uint64) int64 {
	register := &c.registers[hash>>58]
	run := uint32(bits.LeadingZeros64(hash<<6|1<<5)) + 1
	for known := register.Load(); run > known; known = register.Load() {
		if register.CompareAndSwap(known, run) {
			gain := int64(run - known)
			if known == 0 {
				gain = firstGain
			}
			return c.sum.Add(gain)
		}
	}
	return c.sum.Load()
}
