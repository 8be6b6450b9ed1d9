package pgstore

import (
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core/store"
)

// NewAt is New with a clock of the test's, in place of the server's. It removes what has ended only when
// Sweep is called: in the background, it could do so by what the clock said before it was set back.
func NewAt(pool *pgxpool.Pool, now func() int64, config ...Config) *Store {
	s := New(pool, config...)
	s.now = now
	s.sweeper.next.Store(math.MaxInt64)
	return s
}

// Sweep removes at most 500 records that have ended, and returns how many.
func (s *Store) Sweep() int64 { return s.sweep() }

// MisleadClock makes the store believe that the server's clock is ahead of what it is.
func (s *Store) MisleadClock(by time.Duration) {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	for _, b := range []*bounds{&s.clock.now, &s.clock.old} {
		b.low, b.high = b.low+by.Microseconds(), b.high+by.Microseconds()
	}
}

// BucketID is the id of the row of a bucket.
func BucketID(rule *store.Rule, key string) []byte {
	return []byte(idOf(bucketRecord, rule, []byte(key)))
}
