package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/prefetch"
)

// Lease has each process take a slice of a hot key's quota from Redis ahead of
// time and decide by itself until the slice is spent or maxAge has passed; then
// what is left is returned. It takes a key past what one Redis core can decide,
// and past its round trip. Without Lease, Redis decides each request.
//
// A key is hot when Redis has granted this process 64 requests of it within
// maxAge. Its slice is what the process used in the last maxAge, but the process
// never holds more than fraction of what remained when it took the slice. A
// slice that would be good for fewer than 4 requests is not taken: the last
// units are decided by Redis, exactly. Each check of a request is decided by its
// own lease, and Redis is asked for the others only: with a global limit and one
// per client, only the latter costs Redis anything. Sliding logs, calendar windows,
// limits of requests at the same time, operations that are charged once and checks of
// cost 0 are not leased, and a request to which a limit with a penalty
// applies is decided by Redis alone. At most 1,024 keys have leases at a time, and keys that
// are seldom asked for don't push them out.
//
// # Bounds
//
// No unit is granted that Redis has not charged. What can be late is the moment:
//
//   - Fixed and sliding windows are never exceeded: a lease ends with the window
//     it was charged in.
//   - A token bucket grants at most what was leased beyond its burst, since a unit
//     can be spent later than it was charged: at most processes × fraction × burst,
//     no later than the lease lasts. In simulations it was never more than the
//     bucket regains in that time.
//   - Redis may deny while units are leased elsewhere: at most those, and at most
//     while the lease lasts. As each process takes at most fraction of what
//     remains, n of them leave at least (1 − fraction)^n of a window's quota to the
//     others: 100 processes with a fraction of 0.01 hold at most 63 % of it, and
//     only if each is that busy.
//
// A lease lasts for maxAge, but no longer than an eighth of the limit's window, or
// of the time in which its bucket fills.
//
// The units of a process that dies stay charged until the window is over or the
// bucket has refilled, and so do those whose return fails: more is denied, never
// granted. A process that is asked for nothing holds nothing one maxAge later, and
// has nothing to close. A request that Redis refuses takes nothing from a lease.
//
// Leases run on the process's monotonic clock: what time of day it has does not
// matter, and a clock that runs slow by up to 0.1 % is allowed for. After a Reset,
// this process's leases of the key are gone, while other processes may spend and
// return theirs for up to maxAge.
//
// What a result of a leased check tells is an estimate: Remaining is what Redis
// last had left, with what time has given back since and what this process holds;
// At is never later than Redis's clock. [Store.Peek] tells what Redis has left:
// without what is leased.
//
// While Redis is out, leases decide until they are spent or too old.
//
// It panics unless fraction is above 0 and at most 1, and maxAge at least a
// millisecond. A fraction of about 1 / processes and a maxAge from 100ms to 1s
// suit most. Defaults to no leases.
func Lease(fraction float64, maxAge time.Duration) Option {
	if !(fraction >= 1e-6 && fraction <= 1) || maxAge < time.Millisecond {
		panic(fmt.Sprintf("weblimit: redisstore.Lease: fraction must be from 0.000001 to 1 and maxAge at least 1ms, got %v and %v", fraction, maxAge))
	}
	return func(s *Store) { s.leases = prefetch.New(leaseSource{s}, leaseClock{}, fraction, maxAge) }
}

// leaseSource is the store without its leases.
type leaseSource struct{ s *Store }

func (l leaseSource) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	return l.s.decide(ctx, checks, results)
}

func (l leaseSource) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	return l.s.Refund(ctx, checks, results)
}

// leaseClock is the process's monotonic clock.
type leaseClock struct{}

func (leaseClock) Now() int64 { return monotonic() }

func (leaseClock) After(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
