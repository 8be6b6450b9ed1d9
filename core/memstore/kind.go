package memstore

import (
	"math"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// kind packs what a slot must know of its rule, besides numbers, into 32 bits, of which
// the lowest six are not the burst's:
//
//	bits 0-3   the algorithm's number, which is above 0
//	bits 4-5   the tick, as an index of ticks
//	bits 6-31  the burst as a float32 without its last six bits, for eviction only
//
// The kind of a free slot is 0.
type kind uint32

const (
	kindBits      = 6
	kindAlgorithm = 1<<4 - 1
)

// Four bits hold algorithms up to 15. A sixteenth would run into the tick, so it does not
// compile here. Take another bit from the burst then: it need not be exact.
const _ = uint(kindAlgorithm - counting.LastAlgorithm)

// ticks are the values that a rule's tick can have, in microseconds.
var ticks = [...]int64{1, 1000, 1_000_000}

func newKind(f *counting.Form, burst int64) kind {
	tick := 0
	for ticks[tick] != f.Tick {
		tick++
	}
	return kind(math.Float32bits(roughly(burst))) | kind(tick)<<4 | kind(f.Algorithm)
}

func (k kind) algorithm() store.Algorithm { return store.Algorithm(k & kindAlgorithm) }
func (k kind) tick() int64                { return ticks[k>>4&3] }
func (k kind) burst() float32             { return math.Float32frombits(uint32(k >> kindBits << kindBits)) }

// roughly returns units as a kind keeps them. It keeps the order: units that are not
// below a burst are not below it when both are rough.
func roughly(units int64) float32 {
	return math.Float32frombits(math.Float32bits(float32(units)) >> kindBits << kindBits)
}
