package quota

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/quota/internal/accounts"
)

const (
	// pendingEvery is how often it is counted what waits for receivers.
	pendingEvery = 30 * time.Second
)

// stats are what a book counts for metrics, beside what its parts count themselves.
type stats struct {
	counted atomic.Int64 // when it was last counted what waits, in seconds since the epoch

	mu          sync.Mutex
	differences map[string]int64 // by cause. Guarded by mu.
}

// counting returns found with the differences counted.
func (s *stats) counting(found func(Difference) error) func(Difference) error {
	return func(d Difference) error {
		s.mu.Lock()
		if s.differences == nil {
			s.differences = make(map[string]int64)
		}
		s.differences[string(d.Cause)]++
		s.mu.Unlock()
		if found == nil {
			return nil
		}
		return found(d)
	}
}

// countPending counts what waits for receivers, if it is time. What can't be counted stays as it was.
func (b *Book) countPending(ctx context.Context) {
	if time.Since(time.Unix(b.stats.counted.Load(), 0)) < pendingEvery {
		return
	}
	b.stats.counted.Store(time.Now().Unix())
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	b.delivery.Count(ctx)
}

// numbers returns what the book has counted: see [books.Add].
func (b *Book) numbers() books.Stats {
	all := books.Stats{
		Accounts: b.table.Entries.Load(), Unwritten: b.table.Dirty.Load(),
		Units: make(map[string]books.Units),
	}
	all.Notices, all.Exports = b.delivery.Numbers()
	b.rules.Each(func(k *accounts.Kept) {
		all.Units[k.Name] = books.Units{Granted: k.Granted.Load(), Denied: k.Denied.Load()}
	})
	b.stats.mu.Lock()
	all.Differences = maps.Clone(b.stats.differences)
	b.stats.mu.Unlock()
	return all
}
