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
)

// breaker keeps checks from a node that does not answer. While it is open, checks
// fail at once. Now and then one of them starts a probe, on a goroutine of its own,
// so that no request waits for it. A probe that is answered closes the breaker.
// Checks then come back through no more connections than before, since the node's
// queue bounds them.
//
// A closed breaker costs a check one atomic read. Those of libraries cost one or two
// mutexes, and let a request wait for the probe: see bench/breaker_test.go.
type breaker struct {
	failures  atomic.Int32                // round trips in a row
	opened    atomic.Int64                // when, on the monotonic clock; 0 while closed
	nextProbe atomic.Int64                // when, on the monotonic clock
	cause     atomic.Pointer[store.Error] // of opening
}

// origin is when monotonic counts from.
var origin = time.Now()

// monotonic returns the process's monotonic clock in nanoseconds. It is never 0, so
// that 0 can stand for no time.
func monotonic() int64 { return int64(time.Since(origin)) + 1 }

// isOpen reports whether the node is not to be asked.
func (b *breaker) isOpen() bool { return b.opened.Load() != 0 }

// wantsProbe reports that a probe is due, to one caller at a time: no other gets true
// until probed has said when the next one is due.
func (b *breaker) wantsProbe() bool {
	now, next := monotonic(), b.nextProbe.Load()
	return now >= next && b.nextProbe.CompareAndSwap(next, now+int64(time.Hour))
}

// probed plans the next probe.
func (b *breaker) probed() {
	b.nextProbe.Store(monotonic() + int64(probeAfter+rand.N(probeJitter))) //nolint:gosec // G404: spreads probes, hides nothing
}

// succeeded notes a round trip that was answered in time.
func (b *breaker) succeeded() {
	if b.failures.Load() != 0 { // a read is cheaper than a write that all processors see
		b.failures.Store(0)
	}
}

// failed notes a round trip that was not. It reports whether that opened the breaker.
func (b *breaker) failed(cause *store.Error) (opened bool) {
	if b.failures.Add(1) < breakerFailures || b.isOpen() {
		return false
	}
	b.cause.Store(cause)
	b.probed()
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
