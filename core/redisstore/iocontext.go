package redisstore

// The context of a round trip: no client that hangs up ends it, and it allocates
// nothing.

import (
	"context"
	"sync/atomic"
	"time"
)

// ioContext has the values of the context of the request that runs the batch, for
// tracing, and a deadline. The batch keeps it for reuse with its timer, which a
// context of package context could not be. Its owner is the batch's.
type ioContext struct {
	values context.Context
	asked  atomic.Bool // for a value, which may have been by a context that was derived
	at     time.Time
	left   time.Duration // until then, when the round trip began
	done   chan struct{}
	timer  *time.Timer // for end
}

// Value implements [context.Context].
func (c *ioContext) Value(key any) any {
	if !c.asked.Load() {
		c.asked.Store(true)
	}
	return c.values.Value(key)
}

// Deadline implements [context.Context]. go-redis asks before it writes and before it reads. If that
// is after the deadline, this process was late, and there is half the time once more.
func (c *ioContext) Deadline() (time.Time, bool) {
	if late := time.Since(c.at); late >= lateAfter {
		return c.at.Add(late + c.left/2), true
	}
	return c.at, true
}

// Done implements [context.Context].
func (c *ioContext) Done() <-chan struct{} { return c.done }

// Err implements [context.Context].
func (c *ioContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// contextUntil returns the context of a round trip that ends at a time.
func (b *batch) contextUntil(ctx context.Context, ends time.Time, left time.Duration) context.Context {
	if b.io == nil {
		b.io = &ioContext{values: ctx, at: ends, left: left, done: make(chan struct{})}
		b.io.timer = time.AfterFunc(left, b.io.end)
		return b.io
	}
	b.io.values, b.io.at, b.io.left = ctx, ends, left
	b.io.timer.Reset(left) // last: end and who waits for it read the rest
	return b.io
}

// end ends the context when its time is over. If this process is late, the round trip may have had no
// time at all: go-redis asks whether its context is over before it takes a connection. So that goes first.
func (c *ioContext) end() {
	due := c.at
	for range maxLooks {
		more := extended(due)
		if more == 0 {
			break
		}
		due = time.Now().Add(more)
		time.Sleep(more)
	}
	close(c.done)
}

// endContext ends the use of the context. One whose timer has fired is closed for good, and not
// used again. Nor is one that was asked for a value, as by a context that a dialer derived from it.
// That has goroutines, for its own deadline too, which may ask for a value after the dialer has
// returned. So such a context keeps its values.
func (b *batch) endContext() {
	if b.io == nil {
		return
	}
	if !b.io.timer.Stop() || b.io.asked.Load() {
		b.io = nil
		return
	}
	b.io.values = nil // for the garbage collector
}
