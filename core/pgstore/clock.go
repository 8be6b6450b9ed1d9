package pgstore

import (
	"sync"
	"time"
)

// clock is what a process knows of the server's clock: bounds of how far it is ahead of the
// process's monotonic clock. Decisions are made at the lower bound, which is never ahead of the
// server, and checked by the server.
//
// An answer that was sent at s by the server's clock, to a request of the time t0, and
// arrived at t1, bounds the distance by s−t1 and s−t0. The narrowest bounds of some seconds
// count; older ones don't, because clocks drift and are set.
type clock struct {
	mu       sync.Mutex
	now, old bounds        // Guarded by mu. Those of this span of time, and of the one before.
	since    time.Duration // Guarded by mu. When this span began.
}

type bounds struct {
	known     bool
	low, high int64 // microseconds
}

// span is how long bounds count, at least.
const span = 5 * time.Second

var origin = time.Now()

// monotonic returns the process's monotonic clock.
func monotonic() time.Duration { return time.Since(origin) }

func (c *clock) learn(server int64, sent, received time.Duration) {
	heard := bounds{true, server - received.Microseconds(), server - sent.Microseconds()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if received-c.since > span {
		c.old, c.now, c.since = c.now, bounds{}, received
	}
	c.now = c.now.with(heard)
	if both := c.old.with(c.now); both.low > both.high { // one of the clocks was set
		c.old, c.now = bounds{}, heard
	}
}

func (b bounds) with(other bounds) bounds {
	switch {
	case !b.known:
		return other
	case !other.known:
		return b
	}
	return bounds{true, max(b.low, other.low), min(b.high, other.high)}
}

// forget drops the bounds, after the server said that they are wrong.
func (c *clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old, c.now = bounds{}, bounds{}
}

// read returns the bounds of the server's time, in microseconds since the epoch.
func (c *clock) read() (low, high int64, known bool) {
	now := monotonic().Microseconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.old.with(c.now)
	return now + b.low, now + b.high, b.known
}
