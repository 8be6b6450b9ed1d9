package core

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
)

// shared is what all limiters on one store share, however they have wrapped it. If each
// limiter had a local store of its own, each would grant a limit that they share in an outage.
type shared struct {
	*store.Registry
	settler settler
	local   *Memory   // decides while the store does not answer
	start   time.Time // nanoseconds are counted from here

	observing sync.Mutex
	observers []Observer // that hear of the store's events. Guarded by observing.

	// reconciling is held while grants are read from local and marked as charged, so that
	// two requests don't charge the store for the same grants.
	reconciling sync.Mutex

	// grantedUntil is when the last grant of local stops to count: nanoseconds on the monotonic
	// clock, 0 if it granted nothing.
	grantedUntil atomic.Int64
}

// sharedKey is the key under which a store's registry has its shared.
type sharedKey struct{}

// sharedBy returns what the limiters of a store share.
func sharedBy(s Store) *shared {
	registry := s.Registry()
	return registry.Attach(sharedKey{}, func() any {
		return &shared{Registry: registry, local: memstore.New(), start: time.Now()}
	}).(*shared)
}

// now returns nanoseconds on the monotonic clock since s was made, and never 0.
func (s *shared) now() int64 { return int64(time.Since(s.start)) + 1 }

// at returns the time at which now returned n.
func (s *shared) at(n int64) time.Time { return s.start.Add(time.Duration(n - 1)) }

// granted notes that local has granted something that counts for d.
func (s *shared) granted(d time.Duration) {
	until := s.now() + int64(d)
	for {
		last := s.grantedUntil.Load()
		if until <= last || s.grantedUntil.CompareAndSwap(last, until) {
			return
		}
	}
}

// hasGrants reports whether something that local granted may still count, and the store does
// not know of it.
func (s *shared) hasGrants() bool {
	until := s.grantedUntil.Load()
	return until != 0 && s.now() < until
}
