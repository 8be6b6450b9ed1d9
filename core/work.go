package core

import (
	"sync"
	"time"
)

// Work is a piece of work that a [Load] measures. Its methods are safe for concurrent use.
type Work struct {
	load   *Load
	client uint8

	mu     sync.Mutex
	waits  int           // for the client, at once. Guarded by mu.
	since  time.Time     // when it went on working; unset while it waits. Guarded by mu.
	worked time.Duration // until since. Guarded by mu.
	ended  bool          // Guarded by mu.
}

// End ends the work. The first call counts.
func (w *Work) End() {
	if took, first := w.end(); first {
		w.load.end(w.client, took)
	}
}

// end ends the work, and reports how long it took and whether it had not ended before.
func (w *Work) end() (took time.Duration, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return 0, false
	}
	if w.waits == 0 {
		w.pause()
	}
	w.ended = true
	return w.worked, true
}

// pause adds up the time that was worked until now. w.mu is held.
func (w *Work) pause() {
	w.worked += time.Since(w.since)
	w.load.working[w.client].Add(-1)
}

// Wait notes that the request waits for its client until Resume is called as often.
func (w *Work) Wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits++; w.waits == 1 && !w.ended {
		w.pause()
	}
}

// Resume notes that a wait has ended.
func (w *Work) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits--; w.waits == 0 && !w.ended {
		w.since = time.Now()
		w.load.working[w.client].Add(1)
	}
}

// Forget ends the work and ignores how long it took, as when a handler takes over the connection.
func (w *Work) Forget() { w.end() }
