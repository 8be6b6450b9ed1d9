package core

import (
	"cmp"
	"slices"
)

// victim is a bucket that may be evicted.
type victim struct {
	place
	score score
}

// score says what the loss of a bucket would give away: the smaller, the better
// the victim.
type score struct {
	limited bool    // nothing is left: the loss would hand out a fresh budget
	used    float64 // of the burst
	left    int64   // microseconds until the bucket says nothing any more
}

func (a score) compare(b score) int {
	if a.limited != b.limited {
		if b.limited {
			return -1
		}
		return 1
	}
	if a.limited {
		return cmp.Compare(a.left, b.left)
	}
	return cmp.Compare(a.used, b.used)
}

// searchYield is how many victims one search through a shard brings, so that a
// flood of new keys does not search anew for each.
const searchYield = 64

// evict removes the bucket whose loss matters least, other than keep. It
// reports false if there is none.
func (s *shard) evict(keep *place, now int64) bool {
	for {
		for len(s.doomed) > 0 {
			v := s.doomed[len(s.doomed)-1]
			s.doomed = s.doomed[:len(s.doomed)-1]
			i, found := s.find(&v.place)
			if !found || v.place == *keep || s.score(&s.slots[i], now).compare(v.score) > 0 {
				continue // gone, wanted, or used more since the search
			}
			s.remove(&v.place)
			return true
		}
		if !s.search(keep, now) {
			return false
		}
	}
}

// search fills doomed with the best victims. Limited buckets are only among
// them if there is nothing else, and then just one: a better victim may come
// any moment.
func (s *shard) search(keep *place, now int64) bool {
	best := s.doomed[:0]
	worst := func(a, b victim) int { return b.score.compare(a.score) }
	for i := range s.slots {
		if s.slots[i].meta == 0 || s.slots[i].place == *keep {
			continue
		}
		v := victim{s.slots[i].place, s.score(&s.slots[i], now)}
		switch {
		case len(best) < searchYield:
			best = append(best, v)
			if len(best) == searchYield {
				slices.SortFunc(best, worst)
			}
		case v.score.compare(best[0].score) < 0:
			// Insert in order, worst first, dropping the worst.
			at, _ := slices.BinarySearchFunc(best, v, worst)
			copy(best, best[1:at])
			best[at-1] = v
		}
	}
	if len(best) < searchYield {
		slices.SortFunc(best, worst)
	}
	limited := 0
	for limited < len(best)-1 && best[limited].score.limited {
		limited++
	}
	s.doomed = slices.Delete(best, 0, limited)
	return len(s.doomed) > 0
}

func (s *shard) score(slot *slot, now int64) score {
	if slot.expires <= now {
		return score{}
	}
	var b bucket
	s.bucket(slot, &b)
	units, rest, _ := b.form.used(&b, now)
	if rest > 0 {
		units++
	}
	return score{
		limited: units >= slot.burst(),
		used:    float64(units) / float64(slot.burst()),
		left:    slot.expires - now,
	}
}
