package redisstore

import (
	"context"
	"time"
)

// ioContext is the context of a round trip: the values of the leader's, for
// tracing, and its deadline. Its timer is used again, which the context's own
// could not be.
type ioContext struct {
	context.Context
	at    time.Time
	done  chan struct{}
	timer *time.Timer
}

func (c *ioContext) Deadline() (time.Time, bool) { return c.at, true }
func (c *ioContext) Done() <-chan struct{}       { return c.done }

func (c *ioContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// during returns a context for a round trip that ends at the given time.
func (f *flight) during(ctx context.Context, ends time.Time, left time.Duration) context.Context {
	if f.io == nil {
		done := make(chan struct{})
		f.io = &ioContext{done: done, timer: time.AfterFunc(left, func() { close(done) })}
	} else {
		f.io.timer.Reset(left)
	}
	f.io.Context, f.io.at = ctx, ends
	return f.io
}

// after ends the use of the context.
func (f *flight) after() {
	if f.io == nil {
		return
	}
	f.io.Context = nil
	if !f.io.timer.Stop() {
		f.io = nil // it has fired
	}
}
