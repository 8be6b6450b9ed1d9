package core

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
)

// standIn is what decides during a store's outage, and what settles afterwards: one
// for all limiters of the store, however they have wrapped it, or a limit that
// several of them share would be granted by each.
type standIn struct {
	*store.Registry
	settler settler
	memory  *Memory
	start   time.Time // when nanoseconds are counted from

	observing sync.Mutex
	observers []Observer // that hear of the store's events. Guarded by observing.

	// carrying is held while a client's use is taken from memory, so that two
	// requests don't take the same.
	carrying sync.Mutex

	// carryUntil is when nothing counts any more of what memory granted: nanoseconds
	// on the monotonic clock, 0 if it granted nothing.
	carryUntil atomic.Int64
}

// standInKey is where a store's registry has its standIn.
type standInKey struct{}

func standInFor(s Store) *standIn {
	registry := s.Registry()
	return registry.Attach(standInKey{}, func() any {
		return &standIn{Registry: registry, memory: memstore.New(), start: time.Now()}
	}).(*standIn)
}

// now returns nanoseconds on the monotonic clock since s was made, and never 0.
func (s *standIn) now() int64 { return int64(time.Since(s.start)) + 1 }

// granted notes that memory has charged something that counts for d.
func (s *standIn) granted(d time.Duration) {
	until := s.now() + int64(d)
	for {
		last := s.carryUntil.Load()
		if until <= last || s.carryUntil.CompareAndSwap(last, until) {
			return
		}
	}
}

// carries reports whether memory may still hold what the store should know.
func (s *standIn) carries() bool {
	until := s.carryUntil.Load()
	return until != 0 && s.now() < until
}
