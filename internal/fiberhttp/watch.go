package fiberhttp

import (
	"context"
	"sync"
	"time"
)

// Watch looks whether time-out middleware around the limiter abandons a request whose handler has just
// returned. fasthttp then drops the request and closes none of its user values, and no event tells of it. So
// Watch looks again and again, from the deadline on.
type Watch struct {
	abandoned func() bool
	settle    func()

	mu    sync.Mutex
	timer *time.Timer   // Guarded by mu.
	pause time.Duration // until the next look. Guarded by mu.
	ended bool          // the request may be reused. Guarded by mu.
}

// Each pause is twice as long as the one before. The middleware needs no longer than its goroutine waits
// for a processor; after the last pause it has not abandoned the request, whose response is a long one.
const (
	firstPause = time.Millisecond
	lastPause  = 32 * time.Second
)

// NewWatch returns a Watch that calls settle, at most once, if the request is abandoned. It returns nil if
// there is no middleware that could: ctx has no deadline.
func NewWatch(ctx context.Context, abandoned func() bool, settle func()) *Watch {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	wait := time.Until(deadline)
	if ctx.Err() != nil {
		wait = 0
	}
	w := &Watch{abandoned: abandoned, settle: settle, pause: firstPause}
	w.mu.Lock() // a look needs the timer
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(wait, w.look)
	return w
}

func (w *Watch) look() {
	if w.sees() {
		w.settle()
	}
}

// sees reports whether the request is abandoned, and if not plans the next look.
func (w *Watch) sees() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.abandoned() {
		return !w.ended
	}
	if w.pause <= lastPause {
		w.timer.Reset(w.pause)
		w.pause *= 2
	}
	return false
}

// End ends the Watch, which may be nil: the response is sent.
func (w *Watch) End() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
}
