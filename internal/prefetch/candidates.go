package prefetch

// Counts the requests of keys that are not hot, to find those that become hot, in
// bounded memory.

import "sync"

const (
	candidateSets = 512
	candidateWays = 8
)

// candidates counts the granted requests of up to 4,096 keys at a time.
//
// A key that finds no room lowers the smallest count of its set, and takes that
// place when the count is used up. This is the algorithm of Misra and Gries
// ("Finding repeated elements", 1982), set by set. So in a flood of keys that are
// asked for once, these displace each other, and not a key that is asked for often.
type candidates struct {
	sets []candidateSet
}

type candidateSet struct {
	mu    sync.Mutex
	cells [candidateWays]candidate // guarded by mu
}

type candidate struct {
	hash     uint64
	since    int64 // when the count began, on the clock
	requests int64
	units    int64
}

// count counts a request of a key, and reports whether that makes the key hot. If
// so, it returns how many units it used, and since when.
func (c *candidates) count(hash uint64, cost, now, maxAge int64) (units, since int64, hot bool) {
	s := &c.sets[(hash>>32)%candidateSets]
	s.mu.Lock()
	defer s.mu.Unlock()
	cell := s.find(hash, now, maxAge)
	if cell.hash != hash {
		if cell.requests > 1 {
			cell.requests--
			return 0, 0, false
		}
		*cell = candidate{hash: hash, since: now}
	}
	cell.requests++
	cell.units += cost
	if cell.requests < hotRequests {
		return 0, 0, false
	}
	units, since = cell.units, cell.since
	*cell = candidate{}
	return units, since, true
}

// find returns the cell of a key, or the one with the smallest count. Cells that
// are older than maxAge start again. s.mu is held.
func (s *candidateSet) find(hash uint64, now, maxAge int64) *candidate {
	least := &s.cells[0]
	for i := range s.cells {
		cell := &s.cells[i]
		if now-cell.since > maxAge {
			*cell = candidate{}
		}
		if cell.hash == hash {
			return cell
		}
		if cell.requests < least.requests {
			least = cell
		}
	}
	return least
}
