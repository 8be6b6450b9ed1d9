package top

import (
	"math/bits"
	"slices"
)

// sampleSize is how many clients a shard's sample holds at most.
const sampleSize = 128

// sample follows some clients exactly: those whose hash begins with level zeros. While there are
// few clients, level is 0 and all are in the sample. When it is full, level goes up, and half of
// the clients leave it.
//
// Guarded by the lock of its shard.
type sample struct {
	level  uint8
	count  int
	period uint32    // what peaks[0] of clients are of, in periods
	places []sampled // open addressing by hash, up to half full; nil until the first client
}

// sampled is a client of the sample.
type sampled struct {
	hash  uint64 // 0 for a free place
	index int64  // of the window that use is of
	use   int64
	peaks [2]int64 // the highest use in this period, and in the one before
}

// period is how long peaks are kept at least.
const period = 12 * hour

// note counts the use of a client. length is that of the limit's window in ticks; 0 if use is
// all that the client uses, and not what is to be added to it.
func (s *sample) note(hash uint64, now, length tick, use int64) {
	if !s.holds(hash) {
		return
	}
	if s.places == nil {
		s.places = make([]sampled, 2*sampleSize)
	}
	if p := uint32(now / period); p != s.period {
		s.begin(p)
	}
	at := s.place(hash)
	if s.places[at].hash == 0 {
		if s.count == sampleSize {
			s.narrow()
			s.note(hash, now, length, use) // which may not be in the sample any more
			return
		}
		s.places[at].hash = hash
		s.count++
	}
	c := &s.places[at]
	switch {
	case length == 0:
		c.use = use
	case c.index == int64(now/length):
		c.use += use
	default:
		c.index, c.use = int64(now/length), use
	}
	c.peaks[0] = max(c.peaks[0], c.use)
}

// holds reports whether a client with this hash belongs to the sample.
func (s *sample) holds(hash uint64) bool { return bits.LeadingZeros64(hash) >= int(s.level) }

// place returns where a client is, or where it would be.
func (s *sample) place(hash uint64) int {
	mask := len(s.places) - 1
	at := int(hash>>placeShift) & mask
	for s.places[at].hash != 0 && s.places[at].hash != hash {
		at = (at + 1) & mask
	}
	return at
}

// begin begins a period. Clients that were not seen in the last one leave the sample. If few are
// left, it takes in more from now on.
func (s *sample) begin(p uint32) {
	gone := p-s.period > 1 // or the clock was set back
	s.period = p
	s.keep(func(c *sampled) bool {
		c.peaks = [2]int64{0, c.peaks[0]}
		return !gone && c.peaks[1] > 0
	})
	if s.count < sampleSize/4 && s.level > 0 {
		s.level--
	}
}

// narrow halves the share of clients that are in the sample, until there is room.
func (s *sample) narrow() {
	for s.count == sampleSize {
		s.level++
		s.keep(func(c *sampled) bool { return s.holds(c.hash) })
	}
}

// keep keeps some clients.
func (s *sample) keep(which func(*sampled) bool) {
	var kept [sampleSize]sampled
	n := 0
	for i := range s.places {
		if c := &s.places[i]; c.hash != 0 && which(c) {
			kept[n] = *c
			n++
		}
	}
	clear(s.places)
	for i := range kept[:n] {
		s.places[s.place(kept[i].hash)] = kept[i]
	}
	s.count = n
}

// useOf returns a sample of one level out of those of all shards. atMost bounds it.
func useOf(samples []sample, atMost int) Use {
	var u Use
	for i := range samples {
		u.level = max(u.level, samples[i].level)
	}
	type client struct {
		hash uint64
		peak int64
	}
	var all []client
	for i := range samples {
		for _, c := range samples[i].places {
			if c.hash != 0 {
				all = append(all, client{c.hash, max(c.peaks[0], c.peaks[1])})
			}
		}
	}
	all = slices.DeleteFunc(all, func(c client) bool { return bits.LeadingZeros64(c.hash) < int(u.level) })
	slices.SortFunc(all, func(a, b client) int {
		if a.hash < b.hash {
			return -1
		}
		return 1
	})
	for _, c := range all {
		id := c.hash >> idShift
		if n := len(u.ids); n > 0 && u.ids[n-1] == id {
			continue // hashes that differ in their last bits only
		}
		u.ids, u.sizes = append(u.ids, id), append(u.sizes, c.peak)
	}
	u.narrow(atMost)
	return u
}

// narrow leaves out clients, with all others of their probability, until at most n are left.
func (u *Use) narrow(n int) {
	for len(u.ids) > n {
		u.level++
		end, _ := slices.BinarySearch(u.ids, 1<<(64-idShift)>>u.level)
		u.ids, u.sizes = u.ids[:end], u.sizes[:end]
	}
	u.sumUp()
}

// idShift is how many bits of a hash a published sample leaves out.
const idShift = 16

// sumUp derives what is exported from the sample.
func (u *Use) sumUp() {
	u.Peaks = slices.Clone(u.sizes)
	slices.Sort(u.Peaks)
	level := min(u.level, 40)
	u.Clients = min(int64(len(u.ids)), maxCount>>level) << level
}
