package regions

import (
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store/regional"
)

// counts are what the process counts of one limit.
type counts struct {
	messages, failed, crowded   atomic.Int64
	leased, spent, lost, skewed atomic.Int64
	waited, early, told         atomic.Int64
}

func (c *counts) now() regional.Counts {
	return regional.Counts{
		Messages: c.messages.Load(), Failed: c.failed.Load(), Crowded: c.crowded.Load(),
		Leased: c.leased.Load(), Spent: c.spent.Load(), Lost: c.lost.Load(), Skewed: c.skewed.Load(), Told: c.told.Load(),
		Waited: c.waited.Load(), Early: c.early.Load(),
	}
}

// limits are the counts of leased limits. Its zero value is ready to use.
type limits struct{ of sync.Map } // of a limit's name to *counts

// counts returns those of a limit, and begins to count if there are none.
func (l *limits) counts(name string) *counts {
	if known, ok := l.of.Load(name); ok {
		return known.(*counts)
	}
	c, _ := l.of.LoadOrStore(name, new(counts))
	return c.(*counts)
}

// Stats returns the numbers of the process. The Registry of the region's store has them, too: see [regional.All].
func (s *Store) Stats() regional.Stats {
	all := regional.Stats{Region: s.config.Region, Limits: make(map[string]regional.Counts), Keys: int64(s.keys.len()), Home: s.seen()}
	for name, c := range s.limits.of.Range {
		now := c.(*counts).now()
		all.Limits[name.(string)] = now
		all.Add(now)
	}
	return all
}
