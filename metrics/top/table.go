package top

import (
	"bytes"
	"math/rand/v2"
	"slices"
)

// ways is how many clients a set holds.
const ways = 8

// table finds heavy hitters. It is a cache of sets: a client's hash chooses its set, and in a
// full set it competes with the others there. A newcomer replaces the weakest with a
// probability of 1 / (its strength + 1): so a client that is seen once has hardly a chance
// against one that is seen often, and a million clients that are seen once push each
// other out. It takes over that strength. The idea is that of R. Ben Basat et al., "Randomized
// Admission Policy for Efficient Top-k, Frequency, and Volume Estimation", INFOCOM 2017. There,
// the newcomer has one more than the strength, so that a flood of new keys makes all
// stronger, and real clients come in later.
//
// Counts begin when a client comes in, so they are never too high. BenchmarkSketches compares
// the table with other sketches.
//
// Two clients of each set are safe because they are nearest to the limit, and two because they
// are denied most, however few their requests. Strength fades with time.
//
// Guarded by the lock of its shard.
type table struct {
	sets   []set
	random rand.PCG
}

type set struct {
	hashes  [ways]uint64 // 0 for a free place
	entries *[ways]entry // nil until the first client
}

// entry is a client.
type entry struct {
	key      []byte // its array is used again
	strength uint32 // requests, and what the client in this place had before. Faded until fadedAt.
	fadedAt  uint32 // in fadeSteps

	minute, hour window
	used         [2]peak // of this hour, of the last
	seen         tick
	denial       denial
}

// peak is the highest share of a limit that was used.
type peak struct {
	share float32
	at    tick
}

// denial is a Denial without pointers.
type denial struct {
	at                 tick
	reason             uint8
	shadow             bool
	standing           uint8  // of store.Standing
	version            uint32 // a number of versions
	share              int64  // of the client, if clients divide the limit
	cost, remaining    int64
	quota, burst       int64
	window, retryAfter int64 // nanoseconds
}

// fadeStep is how long it takes for a client's strength to halve.
const fadeStep = 10 * 60 * ticksPerSecond

// find returns the entry of a client, or nil.
func (t *table) find(hash uint64, key []byte) *entry {
	s := &t.sets[setOf(hash)&uint64(len(t.sets)-1)]
	for i := range s.hashes {
		if s.hashes[i] == hash && bytes.Equal(s.entries[i].key, key) {
			return &s.entries[i]
		}
	}
	return nil
}

// admit returns the entry of a client that has none, or nil if others are stronger. share and
// denied are of its present decision.
func (t *table) admit(hash uint64, key []byte, now tick, share float32, denied bool) *entry {
	s := &t.sets[setOf(hash)&uint64(len(t.sets)-1)]
	if s.entries == nil {
		s.entries = new([ways]entry)
	}
	place := slices.Index(s.hashes[:], 0)
	strength := uint32(0)
	if place < 0 {
		var ok bool
		if place, strength, ok = s.challenge(&t.random, now, share, denied); !ok {
			return nil
		}
	}
	s.hashes[place] = hash
	e := &s.entries[place]
	// Its first request, which is not counted yet, makes up for the 1.
	*e = entry{key: append(e.key[:0], key...), strength: max(strength, 1) - 1, fadedAt: uint32(now / fadeStep)}
	return e
}

// challenge returns the place of the client that a newcomer replaces, and its strength, or
// false if it does not.
func (s *set) challenge(random *rand.PCG, now tick, share float32, denied bool) (place int, strength uint32, ok bool) {
	var near, most [2]int64 // the two highest, and so safe: shares, and denials
	var shares, denials [ways]int64
	for i := range s.entries {
		e := &s.entries[i]
		e.roll(now)
		// The index makes all numbers different, so that exactly two of each are safe.
		shares[i] = int64(max(e.used[0].share, e.used[1].share)*(1<<20))<<3 | int64(i)
		denials[i] = e.hour.recent()<<3 | int64(i)
		two(&near, shares[i])
		two(&most, denials[i])
	}
	// Of those that are equally weak a random one goes: if it were always the one in the same place, a flood of
	// new keys would replace the last newcomer each time, and nobody would come in.
	place = -1
	chance := random.Uint64()
	for i := range s.entries {
		i = (i + int(chance%ways)) % ways
		if shares[i] >= near[1] || denials[i] >= most[1] && denials[i]>>3 > 0 {
			continue
		}
		if e := &s.entries[i]; place < 0 || e.faded(now) < strength {
			place, strength = i, e.faded(now)
		}
	}
	sure := int64(share*(1<<20)) > near[1]>>3 || denied && most[1]>>3 == 0
	if sure || chance>>32*(uint64(strength)+1)>>32 == 0 {
		return place, strength, true
	}
	return 0, 0, false
}

// two keeps the two highest numbers.
func two(highest *[2]int64, n int64) {
	switch {
	case n > highest[0]:
		highest[0], highest[1] = n, highest[0]
	case n > highest[1]:
		highest[1] = n
	}
}

// faded returns the strength at a time.
func (e *entry) faded(now tick) uint32 {
	steps := uint32(now / fadeStep)
	if steps < e.fadedAt { // the clock was set back
		return e.strength
	}
	return e.strength >> min(steps-e.fadedAt, 31)
}

// roll moves the windows of an entry to now.
func (e *entry) roll(now tick) {
	if n := e.hour.roll(now, hour); n > 0 {
		if n == 1 {
			e.used[1] = e.used[0]
		} else {
			e.used[1] = peak{}
		}
		e.used[0] = peak{}
	}
	e.minute.roll(now, minute)
}

// note counts a decision.
func (e *entry) note(now tick, kind outcome, share float32) {
	if steps := uint32(now / fadeStep); steps != e.fadedAt {
		e.strength, e.fadedAt = e.faded(now), steps
	}
	if e.strength < 1<<31 {
		e.strength++
	}
	e.roll(now)
	e.minute.now[kind]++
	e.hour.now[kind]++
	if share >= e.used[0].share {
		e.used[0] = peak{share, now}
	}
	e.seen = now
}
