package regions

import "sync/atomic"

// counts are what the process counts.
type counts struct {
	messages, failed, crowded   atomic.Int64
	leased, spent, lost, skewed atomic.Int64
	waited, early, told         atomic.Int64
}

// Stats are numbers of a [Store]. Counts begin with the process, and are of this process alone.
type Stats struct {
	Messages int64 // questions to home
	Failed   int64 // leases that home did not answer
	Crowded  int64 // leases that were not asked for, since too many were under way

	Leased int64 // units that home has leased to the region
	Spent  int64 // of these, units that requests were granted
	Lost   int64 // units that were charged at home and did not reach the region
	Skewed int64 // units that were given back, since home's clock is in another window than the region's

	Told int64 // units that home had forgotten and was told again

	Waited int64 // requests that waited for home
	Early  int64 // requests that were denied although home may have had units
	Keys   int64 // that are above their floor, and remembered
}

// Stats returns the numbers of the process.
func (s *Store) Stats() Stats {
	c := &s.counts
	return Stats{
		Messages: c.messages.Load(), Failed: c.failed.Load(), Crowded: c.crowded.Load(),
		Leased: c.leased.Load(), Spent: c.spent.Load(), Lost: c.lost.Load(), Skewed: c.skewed.Load(), Told: c.told.Load(),
		Waited: c.waited.Load(), Early: c.early.Load(), Keys: int64(s.keys.len()),
	}
}
