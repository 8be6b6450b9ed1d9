package prefetch

import "sync"

const (
	candidateSets = 512
	candidateWays = 8
)

// candidates count how often keys are granted that have no lease, up to 4,096 of
// them at a time.
//
// A key that finds no room lowers the smallest count of its set, and takes its
// place when nothing is left of it: the algorithm of Misra and Gries ("Finding
// repeated elements", 1982), set by set. So a flood of keys that are asked once
// pushes out each other, and not one that is asked often.
type candidates struct {
	sets []candidateSet
}

type candidateSet struct {
	mu    sync.Mutex
	cells [candidateWays]candidate // guarded by mu
}

type candidate struct {
	hash     uint64
	since    int64
	requests int64
	units    int64
}

// count counts a request of a key, and reports whether that makes it hot: then
// by how many units since when.
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

// find returns the cell of a key, or the one that counts least. Cells that are
// older than maxAge start again.
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
