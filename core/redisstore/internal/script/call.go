package script

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// Call builds the arguments of one call of the script: what its groups ask, and of
// which keys. Groups mostly ask the same of different keys. What is asked and each key are
// sent once, so that the script parses the one once, and sees what was charged to the
// other before.
type Call struct {
	Keys [][]byte // KEYS
	Asks [][]byte // ARGV, but for its last element, which is Order

	bytes []byte // the orders of all calls since Reset
	start int    // of this call's
	table []uint16
}

// Begin begins a call of so many keys at most, which the groups of equal requests have
// all together. clock is the time to decide at, in microseconds since the epoch, or 0 for
// Redis's own.
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

// Add adds a group that so many equal requests ask.
func (c *Call) Add(g *Group, times int) {
	c.bytes = append(c.bytes, byte(c.ask(g.Ask())), byte(times))
	for k := range g.Keys() {
		n := c.key(g.Key(k))
		c.bytes = append(c.bytes, byte(n>>8), byte(n))
	}
}

// Order returns the last element of ARGV. It stays as it is until Reset.
func (c *Call) Order() []byte { return c.bytes[c.start:len(c.bytes):len(c.bytes)] }

// recentAsks is how many of the things asked are compared with the next one. To
// send one twice is no mistake.
const recentAsks = 8

// seed is that of the tables of keys.
var seed = maphash.MakeSeed()

// ask returns the number, from 1, of what is asked.
func (c *Call) ask(ask []byte) int {
	for n := len(c.Asks); n > max(len(c.Asks)-recentAsks, 0); n-- {
		if bytes.Equal(c.Asks[n-1], ask) {
			return n
		}
	}
	c.Asks = append(c.Asks, ask)
	return len(c.Asks)
}

// key returns the number, from 1, of a key.
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

// Reset drops all calls, and what belongs to others.
func (c *Call) Reset() {
	clear(c.Keys)
	clear(c.Asks)
	c.Keys, c.Asks, c.bytes = c.Keys[:0], c.Asks[:0], c.bytes[:0]
}
