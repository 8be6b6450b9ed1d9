package memstore

import (
	"cmp"
	"math"
	"slices"

	"github.com/weblimit/weblimit/core/store/counting"
)

// victim is a bucket that may be evicted, and its score when it was found.
type victim struct {
	place
	score score
}

// score is what the loss of a bucket gives away: the bucket with the smallest score is
// evicted. For a bucket that has units left it is the used part of the burst, as the bits
// of a float32, which have the order of the numbers. For a bucket that has none left,
// whose loss would grant a fresh quota, it is limited plus the time at which it expires:
// above all of the former.
type score uint64

const limited score = 1 << 63

// searchYield is the number of victims that one search through a shard finds. In a flood
// of new keys, each key pays for 37 slots of a search: 4096 × 8/7 slots for 128 keys.
const searchYield = 128

// evict removes the bucket with the smallest score, other than keep, among those of the
// last search and those that came since. What other buckets have regained since then
// counts from the next search on, after at most searchYield evictions. It reports false
// if there is no bucket to evict.
func (s *shard) evict(keep place, now int64) bool {
	for {
		for len(s.victims) > 0 {
			v := s.victims[len(s.victims)-1]
			s.victims = s.victims[:len(s.victims)-1]
			i, found := s.find(v.place)
			if !found || v.place == keep || s.score(&s.slots[i], now) > v.score {
				continue // gone, wanted, or used more since it was found
			}
			s.remove(i)
			return true
		}
		if !s.search(keep, now) {
			return false
		}
	}
}

// search fills victims with the best ones. It goes through the slots in large steps, so
// that victims of equal score come from all parts of the table: removing neighbours only
// would leave the other parts full, and searches there long.
func (s *shard) search(keep place, now int64) bool {
	step := max(len(s.slots)/searchYield, 1)
	for first := range step {
		for i := first; i < len(s.slots); i += step {
			slot := &s.slots[i]
			if slot.kind == 0 || slot.holds(keep) {
				continue
			}
			v := victim{slot.place(), s.score(slot, now)}
			if len(s.victims) < searchYield || v.score < s.victims[0].score {
				s.addVictim(v)
			}
		}
	}
	return len(s.victims) > 0
}

// considerVictim adds a bucket that is new since the last search, if it is a better victim
// than one of the list: only then is it better than all buckets that are not on the list.
func (s *shard) considerVictim(slot *slot, now int64) {
	if len(s.victims) == 0 {
		return
	}
	if v := (victim{slot.place(), s.score(slot, now)}); v.score < s.victims[0].score {
		s.addVictim(v)
	}
}

// addVictim inserts v in order, worst first, and drops the worst of more than searchYield.
func (s *shard) addVictim(v victim) {
	if len(s.victims) == searchYield {
		s.victims = slices.Delete(s.victims, 0, 1)
	}
	at, _ := slices.BinarySearchFunc(s.victims, v, func(a, b victim) int { return cmp.Compare(b.score, a.score) })
	s.victims = slices.Insert(s.victims, at, v)
}

func (s *shard) score(slot *slot, now int64) score {
	if slot.expires <= now {
		return 0
	}
	var b counting.Bucket
	s.read(slot, &b)
	used, burst := float32(markUsed), slot.kind.burst()
	switch b.Form.Algorithm {
	case counting.PenaltyRecord:
		return penaltyScore(&b, burst, now)
	case counting.ManualRecord:
		return limited | score(b.Expires)
	case counting.MarkRecord, counting.ShareRecord:
	default:
		used = roughly(b.Used(now))
	}
	if used >= burst {
		return limited | score(slot.expires)
	}
	return score(math.Float32bits(used / burst))
}
