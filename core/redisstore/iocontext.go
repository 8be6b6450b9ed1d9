package redisstore

// The context of a round trip: no client that hangs up ends it, and it allocates
// nothing.

import (
	"context"
	"time"
)

// ioContext has the values of the context of the request that runs the batch, for
// tracing, and a deadline. The batch keeps it for reuse with its timer, which a
// context of package context could not be. Its owner is the batch's.
type ioContext struct {
	context.Context // for values only
	at              time.Time
	done            chan struct{}
	timer           *time.Timer // closes done
}

// Deadline implements [context.Context].
func (c *ioContext) Deadline() (time.Time, bool) { return c.at, true }

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
		done := make(chan struct{})
		b.io = &ioContext{done: done, timer: time.AfterFunc(left, func() { close(done) })}
	} else {
		b.io.timer.Reset(left)
	}
	b.io.Context, b.io.at = ctx, ends
	return b.io
}

// endContext ends the use of the context. One whose timer has fired is closed for
// good, and not used again.
func (b *batch) endContext() {
	if b.io == nil {
		return
	}
	b.io.Context = nil
	if !b.io.timer.Stop() {
		b.io = nil
	}
}
