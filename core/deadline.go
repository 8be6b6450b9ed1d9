package core

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store/counting"
)

// deadline is the context of one call to a store. It has the values of the request's
// context, for tracing, and a deadline of its own: a client that hangs up neither saves
// the charge nor makes the store look broken.
//
// It starts a timer only if Done is called. Stores that wait on a connection, which
// has deadlines, don't call it.
type deadline struct {
	context.Context             // the request's; only its values are used
	asked           atomic.Bool // for a value, which may have been by a context that was derived
	at              time.Time

	mu    sync.Mutex
	done  chan struct{} // nil until Done is called. Guarded by mu.
	timer *time.Timer   // Guarded by mu.
}

var _ counting.Deadline = (*deadline)(nil)

var deadlines = sync.Pool{New: func() any { return new(deadline) }}

// started is when this process started. A time that is some time after it costs one read of a clock,
// where time.Now takes two. Such times are compared by their monotonic part alone.
var started = time.Now()

// within returns a context that ends after d. The caller must release it.
func within(parent context.Context, d time.Duration) *deadline {
	c := deadlines.Get().(*deadline)
	c.Context, c.at = parent, started.Add(time.Since(started)+d)
	return c
}

// release ends the use of the context. One with a timer is not pooled: its channel may
// still be in use. Nor is one that was asked for a value, and that keeps its values: a dialer derives a context with
// a deadline, whose timer may fire as the call ends, and then asks for a value once more, in a goroutine that nobody waits for.
func (c *deadline) release() {
	c.mu.Lock()
	timer := c.timer
	c.mu.Unlock()
	if timer != nil {
		timer.Stop()
		return
	}
	if c.asked.Load() {
		return
	}
	c.Context = nil // for the garbage collector
	deadlines.Put(c)
}

// Value implements [context.Context].
func (c *deadline) Value(key any) any {
	if !c.asked.Load() {
		c.asked.Store(true)
	}
	return c.Context.Value(key)
}

func (c *deadline) Deadline() (time.Time, bool) { return c.at, true }

// Ends implements [counting.Deadline].
func (c *deadline) Ends() time.Time { return c.at }

func (c *deadline) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		done := make(chan struct{})
		c.done = done
		c.timer = time.AfterFunc(time.Until(c.at), func() { close(done) })
	}
	return c.done
}

func (c *deadline) Err() error {
	if time.Now().Before(c.at) {
		return nil
	}
	return context.DeadlineExceeded
}
