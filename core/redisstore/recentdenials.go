package redisstore

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// suspects are keys that were denied a moment ago, and may be so again.
type suspects [1024]atomic.Int64 // by hash: until when, on the monotonic clock

// suspicion is how long a key is one after a denial.
const suspicion = time.Second

// note adds the keys of the checks that did not fit.
func (s *suspects) note(checks []store.Check, results []store.Result) {
	for i := range checks {
		if !results[i].Allowed && !checks[i].Shadow {
			s.of(&checks[i]).Store(monotonic() + int64(suspicion))
		}
	}
}

// any reports whether a check that can deny is one. Keys that fall together are
// suspected together, which costs a look.
func (s *suspects) any(checks []store.Check) bool {
	for i := range checks {
		if deniable(&checks[i]) {
			if until := s.of(&checks[i]).Load(); until != 0 && monotonic() < until {
				return true
			}
		}
	}
	return false
}

func (s *suspects) of(c *store.Check) *atomic.Int64 {
	return &s[(maphash.Bytes(hashSeed, c.Key)^uint64(c.Rule.ID()))%uint64(len(s))]
}

// deniable reports whether a check can deny its request.
func deniable(c *store.Check) bool { return !c.Shadow && c.Cost > 0 }
