package script

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// Call builds the arguments of one call of the script. Most groups ask the same of
// different keys. Each text that groups ask is sent once, and the script parses it once.
// Each key is sent once, so that a group sees what the groups before it have charged.
//
// The zero Call is empty. One Call serves the calls of a round trip, one after the other.
type Call struct {
	Keys [][]byte // KEYS
	Asks [][]byte // ARGV without its last element, which is Order

	bytes []byte   // the orders of all calls since Reset
	start int      // where the order of this call begins
	table []uint16 // by hash: the number of a key, from 1
}

// Begin begins a call of at most so many keys. clock is the time to decide at, in
// microseconds since the epoch, or 0 for the server's own.
func (c *Call) Begin(keys int, clock int64) {
	c.Keys, c.Asks, c.start = c.Keys[:0], c.Asks[:0], len(c.bytes)
	size := 4
	for size < 2*keys {
		size *= 2
	}
	c.table = slices.Grow(c.table[:0], size)[:size]
	clear(c.table)
	if clock == 0 {
		c.bytes = append(c.bytes, 0)
		return
	}
	c.bytes = appendNumber(append(c.bytes, 1), clock)
}

// Add adds a group, which stands for the given number of equal requests.
func (c *Call) Add(g *Group, times int) {
	c.bytes = append(c.bytes, byte(c.ask(g.Ask())), byte(times))
	for k := range g.Keys() {
		n := c.key(g.Key(k))
		c.bytes = append(c.bytes, byte(n>>8), byte(n))
	}
}

// Order returns the last element of ARGV. It stays valid until Reset.
func (c *Call) Order() []byte { return c.bytes[c.start:len(c.bytes):len(c.bytes)] }

// recentAsks is how many earlier texts a new one is compared with. Sending one twice is
// correct, only slower.
const recentAsks = 8

// seed is the seed of the tables' hashes.
var seed = maphash.MakeSeed()

// ask returns the index of a text in ARGV, from 1.
func (c *Call) ask(ask []byte) int {
	for n := len(c.Asks); n > max(len(c.Asks)-recentAsks, 0); n-- {
		if bytes.Equal(c.Asks[n-1], ask) {
			return n
		}
	}
	c.Asks = append(c.Asks, ask)
	return len(c.Asks)
}

// key returns the index of a key in KEYS, from 1.
func (c *Call) key(key []byte) int {
	at := maphash.Bytes(seed, key) % uint64(len(c.table))
	for ; c.table[at] != 0; at = (at + 1) % uint64(len(c.table)) {
		if n := int(c.table[at]); bytes.Equal(c.Keys[n-1], key) {
			return n
		}
	}
	c.Keys = append(c.Keys, key)
	c.table[at] = uint16(len(c.Keys))
	return len(c.Keys)
}

// Reset drops all calls and the memory that belongs to groups.
func (c *Call) Reset() {
	clear(c.Keys)
	clear(c.Asks)
	c.Keys, c.Asks, c.bytes = c.Keys[:0], c.Asks[:0], c.bytes[:0]
}
