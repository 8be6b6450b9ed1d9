package memstore

import (
	"cmp"
	"math"
	"slices"

	"github.com/weblimit/weblimit/core/store"
)

// victim is a bucket that may be evicted.
type victim struct {
	place
	score score
}

// score says what the loss of a bucket would give away: the smaller, the better
// the victim. It is the part of the burst that is used, as the bits of a float32,
// which order as the numbers do; or, of a bucket in which nothing is left, so
// that its loss would hand out a fresh budget, when it expires, above all others.
type score uint64

const limited score = 1 << 63

// searchYield is how many victims one search through a shard brings: each is
// evicted, or was used since. A flood of new keys thus pays for 37 slots of a
// search with each key, whatever the buckets are: 4096 × 8/7 slots for 128 keys.
const searchYield = 128

// evict removes the bucket whose loss matters least, other than keep: of those
// that the last search knew, and of those that came since. What time has done to
// the others shows in the next search, after at most searchYield evictions. It
// reports false if there is no bucket to evict.
func (s *shard) evict(keep place, now int64) bool {
	for {
		for len(s.doomed) > 0 {
			v := s.doomed[len(s.doomed)-1]
			s.doomed = s.doomed[:len(s.doomed)-1]
			i, found := s.find(v.place)
			if !found || v.place == keep || s.score(&s.slots[i], now) > v.score {
				continue // gone, wanted, or used more since the search
			}
			s.remove(i)
			return true
		}
		if !s.search(keep, now) {
			return false
		}
	}
}

// search fills doomed with the best victims. It goes through the slots in large
// steps, so that of many equal victims those are found that lie all over the
// table: gaps in one place would leave the others full, and probes there long.
func (s *shard) search(keep place, now int64) bool {
	step := max(len(s.slots)/searchYield, 1)
	for first := range step {
		for i := first; i < len(s.slots); i += step {
			slot := &s.slots[i]
			if slot.kind == 0 || slot.holds(keep) {
				continue
			}
			v := victim{slot.place(), s.score(slot, now)}
			if len(s.doomed) < searchYield || v.score < s.doomed[0].score {
				s.doom(v)
			}
		}
	}
	return len(s.doomed) > 0
}

// offer tells of a bucket that has come since the last search. It is among the
// doomed if it is a better victim than one of them: only then is it known to be
// better than all that are not.
func (s *shard) offer(slot *slot, now int64) {
	if len(s.doomed) == 0 {
		return
	}
	if v := (victim{slot.place(), s.score(slot, now)}); v.score < s.doomed[0].score {
		s.doom(v)
	}
}

// doom inserts v in order, worst first. When there are enough, the worst goes.
func (s *shard) doom(v victim) {
	if len(s.doomed) == searchYield {
		s.doomed = slices.Delete(s.doomed, 0, 1)
	}
	at, _ := slices.BinarySearchFunc(s.doomed, v, func(a, b victim) int { return cmp.Compare(b.score, a.score) })
	s.doomed = slices.Insert(s.doomed, at, v)
}

func (s *shard) score(slot *slot, now int64) score {
	if slot.expires <= now {
		return 0
	}
	var b store.Bucket
	s.read(slot, &b)
	if b.Form.Algorithm == store.PenaltyRecord {
		return penaltyScore(&b, slot.kind.burst(), now)
	}
	used, burst := roughly(b.Used(now)), slot.kind.burst()
	if used >= burst {
		return limited | score(slot.expires)
	}
	return score(math.Float32bits(used / burst))
}
