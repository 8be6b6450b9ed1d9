package redisstore

// What package prefetch needs of the store and of the process's clock. See
// [Prefetch] for what prefetching promises.

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// prefetchSource is the store without its prefetched slices: slices are taken from
// it and returned to it.
type prefetchSource struct{ s *Store }

func (p prefetchSource) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	return p.s.decide(ctx, checks, results)
}

func (p prefetchSource) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	return p.s.Refund(ctx, checks, results)
}

// Lease implements [prefetch.Source]. The script does not count denials for twice as long as the
// slice lasts: then its units have had time to come back.
func (p prefetchSource) Lease(ctx context.Context, c *store.Check, lasts time.Duration, r *store.Result) error {
	checks, results := []store.Check{*c}, []store.Result{{}}
	defer func() { *r = results[0] }()
	if !c.Rule.Penalized() {
		return p.s.decide(ctx, checks, results)
	}
	p.s.listener.wake(p.s) // to hear that the key is blocked
	js, j := p.s.jobFor(nil, take, anySlot, c)
	j.Add(0, c, 0)
	j.penalized, j.mergeable = true, false
	j.GuardChecks()
	j.AddLease(0, c, 2*lasts)
	j.seal(p.s.prefix)
	_, err := p.s.runAndRead(ctx, js, checks, results)
	return err
}

// endLeases ends what this process has taken ahead of the quotas of keys that are blocked.
func (s *Store) endLeases(checks []store.Check) {
	if s.prefetched == nil {
		return
	}
	for i := range checks {
		s.prefetched.End(checks[i].Key)
	}
}

// prefetchClock is the process's monotonic clock.
type prefetchClock struct{}

func (prefetchClock) Now() int64 { return monotonic() }

func (prefetchClock) After(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
