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

// prefetchClock is the process's monotonic clock.
type prefetchClock struct{}

func (prefetchClock) Now() int64 { return monotonic() }

func (prefetchClock) After(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
