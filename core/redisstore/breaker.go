package redisstore

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// breakerFailures is how many calls in a row must fail, or take nearly all
	// of their time, for a node not to be asked any more.
	breakerFailures = 5

	// slowShare is the part of its time that a call may take, in quarters,
	// before it counts as a failure.
	slowShare = 3

	// A node that is not asked is probed once in a while, by one process more or
	// less often than by another, or all would come back at one moment.
	probeAfter  = 400 * time.Millisecond
	probeJitter = 200 * time.Millisecond
)

// breaker keeps checks from a node that does not answer. While it is open,
// checks fail at once, and now and then one of them starts a probe: a call of
// its own, on a goroutine of its own, so that no request waits for it. A probe
// that is answered closes the breaker; checks then come back through as few
// connections as ever, since the node's queue bounds them.
//
// A breaker costs a check one atomic read. Those of the libraries cost a mutex
// or two and let a request wait for the probe: see bench/breaker_test.go.
type breaker struct {
	failures atomic.Int32
	opened   atomic.Int64 // when: nanoseconds on the monotonic clock; 0 while closed
	next     atomic.Int64 // when to probe, as opened
	cause    atomic.Pointer[store.Error]
}

// origin is when the nanoseconds of breakers are counted from.
var origin = time.Now()

func monotonic() int64 { return int64(time.Since(origin)) + 1 } // never 0

// isOpen reports whether the node is not to be asked.
func (b *breaker) isOpen() bool { return b.opened.Load() != 0 }

// wantsProbe reports, to one caller at a time, that a probe is due.
func (b *breaker) wantsProbe() bool {
	now, next := monotonic(), b.next.Load()
	return now >= next && b.next.CompareAndSwap(next, now+int64(time.Hour)) // until probed says when
}

// probed plans the next probe.
func (b *breaker) probed() {
	b.next.Store(monotonic() + int64(probeAfter+rand.N(probeJitter))) //nolint:gosec // G404: spreads probes, hides nothing
}

// succeeded notes a call that was answered in time.
func (b *breaker) succeeded() {
	if b.failures.Load() != 0 {
		b.failures.Store(0)
	}
}

// failed notes a call that was not. It reports whether that opened the breaker.
func (b *breaker) failed(cause *store.Error) (opened bool) {
	if b.failures.Add(1) < breakerFailures || b.isOpen() {
		return false
	}
	b.cause.Store(cause)
	b.probed()
	return b.opened.CompareAndSwap(0, monotonic())
}

// close has the node asked again. It returns how long the breaker was open, or 0
// if it was not.
func (b *breaker) close() time.Duration {
	b.failures.Store(0)
	opened := b.opened.Swap(0)
	if opened == 0 {
		return 0
	}
	return max(time.Duration(monotonic()-opened), 1)
}
