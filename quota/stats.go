package quota

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// pendingEvery is how often it is counted what waits for receivers, and mostPending how far.
	pendingEvery = 30 * time.Second
	mostPending  = 100_000
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
	for _, c := range b.couriers.all {
		if n, err := b.ledger.Waiting(ctx, c.channel.Name, mostPending); err == nil {
			c.pending.Store(n)
		}
	}
	for _, s := range b.senders.all {
		if n, err := b.ledger.Pending(ctx, s.export.Name, mostPending); err == nil {
			s.pending.Store(n)
		}
	}
}

// numbers returns what the book has counted: see [store.Registry.AddLedger].
func (b *Book) numbers() store.LedgerStats {
	all := store.LedgerStats{
		Accounts: b.table.entries.Load(), Unwritten: b.table.dirty.Load(),
		Units:   make(map[string]store.LedgerUnits),
		Notices: make(map[string]store.Deliveries), Exports: make(map[string]store.Deliveries),
	}
	b.rules.limits.Range(func(name, limit any) bool {
		k := limit.(*kept)
		all.Units[name.(string)] = store.LedgerUnits{Granted: k.granted.Load(), Denied: k.denied.Load()}
		return true
	})
	for _, c := range b.couriers.all {
		all.Notices[c.channel.Name] = store.Deliveries{Done: c.delivered.Load(), Pending: c.pending.Load()}
	}
	for _, s := range b.senders.all {
		all.Exports[s.export.Name] = store.Deliveries{Done: s.accepted.Load(), Pending: s.pending.Load()}
	}
	b.stats.mu.Lock()
	all.Differences = maps.Clone(b.stats.differences)
	b.stats.mu.Unlock()
	return all
}
