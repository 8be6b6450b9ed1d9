package core

import (
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/internal/testclock"
)

func init() {
	testclock.SetLocal = func(store any, now func() int64) {
		s := sharedBy(store.(Store))
		testclock.Set(s.local, now)
		s.testTime = now
	}
}

// shared is what all limiters on one store share, however they have wrapped it. If each
// limiter had a local store of its own, each would grant a limit that they share in an outage.
type shared struct {
	*store.Registry
	settler settler
	local   *Memory   // decides while the store does not answer
	start   time.Time // nanoseconds are counted from here

	observing sync.Mutex
	observers []Observer // that hear of the store's events. Guarded by observing.

	untold untold // what local granted and the store does not know of
	rivals *advice.Rivals

	testTime func() int64 // local's clock if a test has set it: microseconds since the epoch
}

// sharedKey is the key under which a store's registry has its shared.
type sharedKey struct{}

// sharedBy returns what the limiters of a store share.
func sharedBy(s Store) *shared {
	registry, local := s.Registry().Root(), seam.Local(s)
	return registry.Attach(sharedKey{}, func() any {
		return &shared{Registry: registry, local: local, start: time.Now(), rivals: advice.NewRivals(registry)}
	}).(*shared)
}

// now returns nanoseconds on the monotonic clock since s was made, and never 0.
func (s *shared) now() int64 { return int64(time.Since(s.start)) + 1 }

// at returns the time at which now returned n.
func (s *shared) at(n int64) time.Time { return s.start.Add(time.Duration(n - 1)) }

// localTime returns nanoseconds on a clock that goes as local's does.
func (s *shared) localTime() int64 {
	if s.testTime != nil {
		return s.testTime() * int64(time.Microsecond)
	}
	return s.now()
}
