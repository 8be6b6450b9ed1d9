package redisstore

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// order says which groups a call of the script decides: what each asks, and of
// which keys. Groups mostly ask the same of different keys: what is asked and
// each key are sent once, so that the script reads the one once, and sees what
// was charged to the other before.
type order struct {
	keys  [][]byte
	asks  [][]byte
	bytes []byte // of all calls of the flight
	start int    // of this call's
	table []uint16
}

// recentAsks is how many of the things asked are compared with the next one. To
// send one twice is no mistake.
const recentAsks = 8

func (o *order) begin(groups []group, clock int64) {
	o.keys, o.asks, o.start = o.keys[:0], o.asks[:0], len(o.bytes)
	size := 4
	for i := range groups {
		for size < 2*len(groups)*len(groups[i].first.keys) {
			size *= 2
		}
	}
	o.table = slices.Grow(o.table[:0], size)[:size]
	clear(o.table)
	if clock == 0 {
		o.bytes = append(o.bytes, 0)
		return
	}
	o.bytes = appendNumber(append(o.bytes, 1), clock)
}

// add adds a group.
func (o *order) add(g *group) {
	o.bytes = append(o.bytes, byte(o.ask(g.first.data[:g.first.group])), byte(g.times))
	for k := range g.first.keys {
		n := o.key(g.first.key(k))
		o.bytes = append(o.bytes, byte(n>>8), byte(n))
	}
}

// end returns what the script reads. It stays as it is.
func (o *order) end() []byte { return o.bytes[o.start:len(o.bytes):len(o.bytes)] }

// ask returns the number, from 1, of what is asked.
func (o *order) ask(ask []byte) int {
	for n := len(o.asks); n > max(len(o.asks)-recentAsks, 0); n-- {
		if bytes.Equal(o.asks[n-1], ask) {
			return n
		}
	}
	o.asks = append(o.asks, ask)
	return len(o.asks)
}

// key returns the number, from 1, of a key.
func (o *order) key(key []byte) int {
	at := maphash.Bytes(hashSeed, key) % uint64(len(o.table))
	for ; o.table[at] != 0; at = (at + 1) % uint64(len(o.table)) {
		if n := int(o.table[at]); bytes.Equal(o.keys[n-1], key) {
			return n
		}
	}
	o.keys = append(o.keys, key)
	o.table[at] = uint16(len(o.keys))
	return len(o.keys)
}

// release forgets what belongs to others.
func (o *order) release() {
	clear(o.keys)
	clear(o.asks)
	o.keys, o.asks, o.bytes = o.keys[:0], o.asks[:0], o.bytes[:0]
}
