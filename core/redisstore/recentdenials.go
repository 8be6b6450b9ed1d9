package redisstore

// Keys that were denied within the last second, and may be denied again. Requests
// in several slots ask for such a key before they charge others.

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// recentDenialAge is how long a denial counts as recent.
const recentDenialAge = time.Second

// recentDenials holds, by a hash of key and limit, until when a denial is recent, on
// the monotonic clock. Keys whose hashes collide share an entry. That costs a round
// trip, and decides nothing.
type recentDenials [1024]atomic.Int64

// note adds the keys of the checks that did not fit.
func (r *recentDenials) note(checks []store.Check, results []store.Result) {
	for i := range checks {
		if counting.IsDenial(&checks[i], &results[i]) && !results[i].Unknown {
			r.entry(&checks[i]).Store(monotonic() + int64(recentDenialAge))
		}
	}
}

// anyOf reports whether a check that can deny was recently denied.
func (r *recentDenials) anyOf(checks []store.Check) bool {
	for i := range checks {
		if canDeny(&checks[i]) {
			if until := r.entry(&checks[i]).Load(); until != 0 && monotonic() < until {
				return true
			}
		}
	}
	return false
}

func (r *recentDenials) entry(c *store.Check) *atomic.Int64 {
	return &r[(maphash.Bytes(hashSeed, c.Key)^c.Rule.ID())%uint64(len(r))]
}

// canDeny reports whether a check can deny its request. A ledger can do so even in shadow mode,
// while its account is unknown.
func canDeny(c *store.Check) bool {
	return c.Cost > 0 && (!c.Shadow || c.Rule.Algorithm == store.Ledger)
}
