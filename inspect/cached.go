package inspect

import (
	"context"
	"sync"
	"time"
)

// cached is a value that is made anew when it is asked for and too old. Callers that ask meanwhile
// wait for it together. Its zero value is ready to use.
type cached[T any] struct {
	mu      sync.Mutex
	value   T             // Guarded by mu.
	expires time.Time     // Guarded by mu.
	running chan struct{} // closed when the value that is being made is there. Guarded by mu.
}

// get returns the value. makeValue also says how long it is good for. It runs with a context that
// does not end with the caller, since others may wait for it.
func (c *cached[T]) get(ctx context.Context, timeout time.Duration, makeValue func(context.Context) (T, time.Duration)) (T, error) {
	for {
		c.mu.Lock()
		if time.Now().Before(c.expires) {
			defer c.mu.Unlock()
			return c.value, nil
		}
		running := c.running
		if running == nil {
			c.running = make(chan struct{})
			c.mu.Unlock()
			return c.renew(ctx, timeout, makeValue), nil
		}
		c.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

func (c *cached[T]) renew(ctx context.Context, timeout time.Duration, makeValue func(context.Context) (T, time.Duration)) T {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	var value T
	var good time.Duration
	defer func() { // also if makeValue panics: nobody may wait for ever
		c.mu.Lock()
		defer c.mu.Unlock()
		c.value, c.expires = value, time.Now().Add(good)
		close(c.running)
		c.running = nil
	}()
	value, good = makeValue(ctx)
	return value
}
