package redisstore

// The circuit breaker of a node.

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// breakerFailures is how many round trips in a row must fail, or take nearly all
	// of their time, for the breaker to open.
	breakerFailures = 5

	// While the breaker is open, the node is probed this often. The jitter differs by
	// process, or all would come back at the same moment.
	probeAfter  = 400 * time.Millisecond
	probeJitter = 200 * time.Millisecond

	// idleAfter is how long probes go on at this pace after the last check for the node. Then they are
	// rare, patience.idle apart, until the next check.
	idleAfter = 5 * time.Minute
)

// breaker keeps checks from a node that does not answer. While it is open, checks
// fail at once, and a timer probes the node, so that no request waits for that. A probe
// that is answered closes the breaker.
// Checks then come back through no more connections than before, since the node's
// queue bounds them.
//
// A closed breaker costs a check one atomic read. Those of libraries cost one or two
// mutexes, and let a request wait for the probe: see bench/breaker_test.go.
type breaker struct {
	failures  atomic.Int32                // round trips in a row
	opened    atomic.Int64                // when, on the monotonic clock; 0 while closed
	nextProbe atomic.Int64                // when, on the monotonic clock
	probing   atomic.Bool                 // a probe is under way, or a timer will start it
	asked     atomic.Int64                // when a check last wanted the node, on the monotonic clock
	probeKey  atomic.Pointer[string]      // that probes use
	cause     atomic.Pointer[store.Error] // of opening
}

// origin is when monotonic counts from.
var origin = time.Now()

// monotonic returns the process's monotonic clock in nanoseconds. It is never 0, so
// that 0 can stand for no time.
func monotonic() int64 { return int64(time.Since(origin)) + 1 }

// isOpen reports whether the node is not to be asked.
func (b *breaker) isOpen() bool { return b.opened.Load() != 0 }

// wantsProbe notes that a check was refused, and reports whether its caller has to start
// the probes: they have ended, and the next one is due. No other caller gets true then.
func (b *breaker) wantsProbe() bool {
	now := monotonic()
	if now-b.asked.Load() > int64(time.Second) { // a read is cheaper than a write that all processors see
		b.asked.Store(now)
	}
	return !b.probing.Load() && now >= b.nextProbe.Load() && b.probing.CompareAndSwap(false, true)
}

// isIdle reports whether no check has wanted the node for long.
func (b *breaker) isIdle() bool { return monotonic()-b.asked.Load() > int64(idleAfter) }

// planProbe returns in how long the next probe is due.
func (b *breaker) planProbe() time.Duration {
	after := probeAfter + rand.N(probeJitter) //nolint:gosec // G404: spreads probes, hides nothing
	b.nextProbe.Store(monotonic() + int64(after))
	return after
}

// succeeded notes a round trip that was answered in time.
func (b *breaker) succeeded() {
	if b.failures.Load() != 0 { // a read is cheaper than a write that all processors see
		b.failures.Store(0)
	}
}

// failed notes a round trip that was not, for a key. It reports whether that opened the
// breaker.
func (b *breaker) failed(cause *store.Error, key string) (opened bool) {
	if b.failures.Add(1) < breakerFailures || b.isOpen() {
		return false
	}
	b.cause.Store(cause)
	b.probeKey.Store(&key)
	b.asked.Store(monotonic())
	return b.opened.CompareAndSwap(0, monotonic())
}

// close has the node asked again. It returns for how long the breaker was open, or 0
// if it was not.
func (b *breaker) close() time.Duration {
	b.failures.Store(0)
	opened := b.opened.Swap(0)
	if opened == 0 {
		return 0
	}
	return max(time.Duration(monotonic()-opened), 1)
}
