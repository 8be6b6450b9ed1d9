package script

import (
	"bytes"
	"slices"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// Group builds what one request asks of the keys of one hash slot: its checks, in the order
// in which the script reads them, and the keys.
//
// Begin it, add marks, then checks and penalties, then holds, and seal it. A sealed group
// refers to nothing of the request, and may be read concurrently.
type Group struct {
	Op     Op
	Clock  int64 // microseconds since the epoch by Redis's clock as far as the process knows, for calendar windows
	Notice uint8 // how long the caller may repeat a denial, if it hears what is published; see NoticeFor
	Checks []int // the request's checks in the script's order: i, ^i for the penalty of i, or Hold

	places []place  // where each of Checks stands in data
	data   []byte   // what is asked, then the keys
	asked  int      // how much of data is what is asked
	ends   []int    // where each key ends in data
	answer int      // the length of the script's answer, in bytes
	whole  int      // of a plain take, once it is sealed: the length of the answer if it is decided at once; else 0
	tags   [][]byte // client keys, until Seal
	marks  []mark   // until Seal

	shared   []byte         // what is said of shares
	dividers []*store.Check // that have them, until Seal

	choices uint8 // how many choices have been added
}

// place is where a check stands in a group.
type place struct {
	key   int
	limit uint64
	at    int // in data
}

// What is asked begins with the operation and these two counts.
const (
	checksAt = 1
	keysAt   = 2
)

// Begin empties the group and sets its operation.
func (g *Group) Begin(op Op) {
	g.Forget()
	g.Op, g.Clock, g.Notice, g.asked, g.answer, g.whole, g.choices = op, 0, 0, 0, 0, 0, 0
	g.Checks, g.places, g.ends = g.Checks[:0], g.places[:0], g.ends[:0]
	g.data = append(g.data[:0], byte(op), 0, 0)
}

// Forget drops references to the request.
func (g *Group) Forget() {
	clear(g.tags)
	clear(g.marks)
	clear(g.dividers)
	g.tags, g.marks, g.dividers, g.shared = g.tags[:0], g.marks[:0], g.dividers[:0], g.shared[:0]
}

// Add adds check number index of the request, after its mark if it has one. In a refund or
// renewal, charged is when the check was charged.
func (g *Group) Add(index int, check *store.Check, charged int64) {
	g.add(index, check, charged, alternative{})
}

func (g *Group) add(index int, check *store.Check, charged int64, of alternative) {
	p, n := g.next(check.Key, check.Rule.ID())
	g.data = appendCheck(g.data, g.Op, check, charged, g.markOf(index), of, g.Clock, nil)
	g.insert(p, n, index, check.Rule.Algorithm)
}

// AddRestoration adds the restoration of the account of check number index of the request.
func (g *Group) AddRestoration(index int, check *store.Check, from *counting.Restoration) {
	p, n := g.next(check.Key, check.Rule.ID())
	g.data = appendCheck(g.data, g.Op, check, 0, 0, alternative{}, g.Clock, from)
	g.insert(p, n, index, check.Rule.Algorithm)
}

// AddKeys adds the keys of checks without the checks, for AddHolds.
func (g *Group) AddKeys(checks []store.Check) {
	for i := range checks {
		if !slices.ContainsFunc(g.tags, func(tag []byte) bool { return bytes.Equal(tag, checks[i].Key) }) {
			g.tags = append(g.tags, checks[i].Key)
		}
	}
}

// next returns a place at the end of data for a check that is about to be written, and its
// index among places: they are ordered by key, and within a key by limit, like the records
// of its value.
func (g *Group) next(tag []byte, limit uint64) (p place, n int) {
	key := slices.IndexFunc(g.tags, func(known []byte) bool { return bytes.Equal(known, tag) })
	if key < 0 {
		key = len(g.tags)
		g.tags = append(g.tags, tag)
	}
	key += len(g.marks)
	n = len(g.places)
	for n > 0 && (g.places[n-1].key > key || g.places[n-1].key == key && g.places[n-1].limit > limit) {
		n--
	}
	if key == int(g.data[keysAt]) {
		g.data[keysAt]++
		g.data = append(g.data, 0)
	}
	return place{key: key, limit: limit, at: len(g.data)}, n
}

// insert moves the check that was written at p, the end of data, to index n of places.
func (g *Group) insert(p place, n, index int, algorithm store.Algorithm) {
	end := p.at
	switch {
	case n == len(g.places):
	case g.places[n].key == p.key:
		p.at = g.places[n].at
	default: // the last check of its key: it goes before the count of the next key's checks
		p.at = g.places[n].at - 1
	}
	if p.at < end {
		length := len(g.data) - end
		g.data = append(g.data, g.data[end:]...) // a copy to move back from
		copy(g.data[p.at+length:], g.data[p.at:end])
		copy(g.data[p.at:], g.data[end+length:])
		g.data = g.data[:end+length]
		for i := n; i < len(g.places); i++ {
			g.places[i].at += length
		}
	}
	g.Checks = slices.Insert(g.Checks, n, index)
	g.places = slices.Insert(g.places, n, p)
	first, _ := slices.BinarySearchFunc(g.places, p.key, func(p place, key int) int { return p.key - key })
	g.data[g.places[first].at-1]++
	g.data[checksAt]++
	g.answer += answerLength(g.Op, algorithm)
}

// Seal adds the Redis keys.
func (g *Group) Seal(prefix string) {
	g.endAsk(prefix)
	for i := range g.marks {
		g.data = AppendMarkKey(g.data, prefix, g.marks[i].of)
		g.ends = append(g.ends, len(g.data))
	}
	for _, tag := range g.tags {
		g.data = AppendKey(g.data, prefix, tag)
		g.ends = append(g.ends, len(g.data))
	}
	g.sealShares(prefix)
	g.Forget()
}

// SealWith seals a group of one client key with another Redis key in its place.
func (g *Group) SealWith(key string) {
	g.endAsk("")
	g.data = append(g.data, key...)
	g.ends = append(g.ends, len(g.data))
	g.Forget()
}

// Bytes returns all of a sealed group. It is equal for groups that ask the same of the same keys.
func (g *Group) Bytes() []byte { return g.data }

// Ask returns what a sealed group asks, without its keys.
func (g *Group) Ask() []byte { return g.data[:g.asked] }

// Keys returns the number of keys of a sealed group.
func (g *Group) Keys() int { return len(g.ends) }

// Key returns a key of a sealed group.
func (g *Group) Key(n int) []byte {
	start := g.asked
	if n > 0 {
		start = g.ends[n-1]
	}
	return g.data[start:g.ends[n]]
}
