// Package regional is what the store of a region says to those who show or measure it and do not import it, such as
// pages, commands and metrics: what it has leased from home and what came of that, and whether home answers.
//
// Package regions has such a store.
package regional

import (
	"maps"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/shelf"
)

// Stats are numbers of the store of a region. Counts begin with the process, and are of this process alone.
type Stats struct {
	Region string
	Counts                   // of all limits
	Limits map[string]Counts // of each leased limit, by its name

	Keys int64 // that are above their floor, and remembered
	Home Home
}

// Counts are what is counted of a leased limit.
type Counts struct {
	Messages int64 // questions to home
	Failed   int64 // leases that home did not answer
	Crowded  int64 // leases that were not asked for, since too many were under way

	Leased int64 // units that home has leased to the region
	Spent  int64 // units that requests were granted beyond the floor
	Lost   int64 // units that were charged at home and did not reach the region
	Skewed int64 // units that were given back, since home's clock is in another window than the region's
	Told   int64 // units that home had forgotten and was told again

	Waited int64 // requests that waited for home; under several limits, counted for the first
	Early  int64 // requests that were denied although home may have had units
}

// Add adds other counts.
func (c *Counts) Add(o Counts) {
	c.Messages += o.Messages
	c.Failed += o.Failed
	c.Crowded += o.Crowded
	c.Leased += o.Leased
	c.Spent += o.Spent
	c.Lost += o.Lost
	c.Skewed += o.Skewed
	c.Told += o.Told
	c.Waited += o.Waited
	c.Early += o.Early
}

// Home is what a region knows of home. Only questions tell, so it stays as it is while none is asked.
type Home struct {
	Away  time.Time     // since when home has not answered; zero while it answers
	Class store.Class   // why it does not
	Trip  time.Duration // how long a question took lately; 0 before the first answer
}

// Sum adds up the numbers of each region, for those who have several stores of one. It returns them in the order of
// their names.
func Sum(all []Stats) []Stats {
	by := make(map[string]*Stats)
	for i := range all {
		s := &all[i]
		sum := by[s.Region]
		if sum == nil {
			sum = &Stats{Region: s.Region, Limits: make(map[string]Counts)}
			by[s.Region] = sum
		}
		sum.Add(s.Counts)
		for limit, counts := range s.Limits {
			counts.Add(sum.Limits[limit])
			sum.Limits[limit] = counts
		}
		sum.Keys += s.Keys
		sum.Home.Trip = max(sum.Home.Trip, s.Home.Trip)
		if away := s.Home.Away; !away.IsZero() && (sum.Home.Away.IsZero() || away.Before(sum.Home.Away)) {
			sum.Home.Away, sum.Home.Class = away, s.Home.Class
		}
	}
	sums := make([]Stats, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		sums = append(sums, *by[name])
	}
	return sums
}

// Add adds the store of a region over the store of that Registry, until remove is called. stats must not wait for a
// server.
func Add(r *store.Registry, stats func() Stats) (remove func()) { return shelf.Add(r, stats) }

// All returns the numbers of all stores of regions over a store.
func All(r *store.Registry) []Stats { return shelf.All[Stats](r) }
