package core

import (
	"sync"
	"time"
)

// Work is a request that a [Load] measures. Its methods are safe for concurrent use.
type Work struct {
	load   *Load
	client uint8

	mu     sync.Mutex
	waits  int           // for the client, at once. Guarded by mu.
	since  time.Time     // when it went to work, if it is. Guarded by mu.
	worked time.Duration // before. Guarded by mu.
	ended  bool          // Guarded by mu.
}

// Wait says that the request waits for its client from now on, until Resume is
// called as often.
func (w *Work) Wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits++; w.waits == 1 && !w.ended {
		w.stop()
	}
}

// Resume says that it does not any more.
func (w *Work) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits--; w.waits == 0 && !w.ended {
		w.since = time.Now()
		w.load.working[w.client].Add(1)
	}
}

// End counts the request out. The first call counts.
func (w *Work) End() {
	if took, first := w.end(); first {
		w.load.end(w.client, took)
	}
}

// Forget counts it out as one that says nothing of the load: one whose handler has
// taken over the connection.
func (w *Work) Forget() { w.end() }

func (w *Work) end() (took time.Duration, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return 0, false
	}
	if w.waits == 0 {
		w.stop()
	}
	w.ended = true
	return w.worked, true
}

// stop counts what was worked until now. w.mu is held.
func (w *Work) stop() {
	w.worked += time.Since(w.since)
	w.load.working[w.client].Add(-1)
}
