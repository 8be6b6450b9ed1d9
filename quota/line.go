package quota

import (
	"sync"
	"time"
)

// line is a queue of questions to the ledger. A few goroutines ask them, several at a time, and end when none is left.
// Those who ask for the same thing at the same time share one question. It has what opener and tenants have in common.
type line[K comparable, Q question[K]] struct {
	mu      sync.Mutex
	pending map[K]Q   // queued or on their way. Guarded by mu.
	queue   []Q       // Guarded by mu.
	running int       // goroutines. Guarded by mu.
	since   time.Time // when the last answer came, or the first question after it was asked. Guarded by mu.
}

// question is what somebody waits for.
type question[K comparable] interface {
	about() K
	end() // wakes those who wait
}

// add queues a question. l.mu is held.
func (l *line[K, Q]) add(q Q) {
	if l.pending == nil {
		l.pending = make(map[K]Q)
	}
	l.pending[q.about()] = q
	l.queue = append(l.queue, q)
}

// start has another goroutine ask, if there are fewer than most. next takes some questions from the queue, with l.mu
// held, and ask answers them. l.mu is held.
func (l *line[K, Q]) start(most int, next func() []Q, ask func([]Q)) {
	if l.running >= most {
		return
	}
	if l.running == 0 {
		l.since = time.Now()
	}
	l.running++
	go l.run(next, ask)
}

// run works until the queue is empty. Whoever has an answer finds it ended, if it was the last.
func (l *line[K, Q]) run(next func() []Q, ask func([]Q)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for batch := next(); len(batch) > 0; batch = next() {
		l.mu.Unlock()
		ask(batch)
		l.mu.Lock()
		l.since = time.Now()
		for _, q := range batch {
			delete(l.pending, q.about())
			q.end()
		}
	}
	l.queue = nil
	l.running--
}

// isSlow reports whether there was no answer for a while, although somebody asks. l.mu is held.
func (l *line[K, Q]) isSlow(after time.Duration) bool {
	return l.running > 0 && time.Since(l.since) > after
}
