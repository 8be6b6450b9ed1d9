package faults_test

import (
	"sync"
	"time"
)

// What a decision may take is a promise of the limiter, unless the machine keeps the process from
// running meanwhile. So the tests measure how long that was: a goroutine sleeps again and again, and
// notes by how much it was late.

// watchEvery is how long that goroutine sleeps.
const watchEvery = 5 * time.Millisecond

// lateness is when goroutines of this process were ready, and did not run.
type lateness struct {
	mu   sync.Mutex
	gaps []gap // Guarded by mu; in order.
}

// gap is a time in which a goroutine was ready, and did not run.
type gap struct{ from, to time.Time }

// late is the lateness of this process, from TestMain on.
var late lateness

// watch notes gaps for as long as the process runs.
func (l *lateness) watch() {
	for {
		due := time.Now().Add(watchEvery)
		time.Sleep(watchEvery) // by how much that is late is what it measures
		if now := time.Now(); now.Sub(due) > time.Millisecond {
			l.mu.Lock()
			l.gaps = append(l.gaps, gap{due, now})
			l.mu.Unlock()
		}
	}
}

// between returns how long the process was late between two times, all in all.
func (l *lateness) between(from, to time.Time) (sum time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.gaps) - 1; i >= 0 && l.gaps[i].to.After(from); i-- {
		g := l.gaps[i]
		if g.from.Before(from) {
			g.from = from
		}
		if g.to.After(to) {
			g.to = to
		}
		sum += max(0, g.to.Sub(g.from))
	}
	return sum
}

// less returns what is left of a time that something took without what the process was late. A
// process that was late may take more time once: half the deadline and 400 ms, as docs/run/guarantees.md says.
func (l *lateness) less(began time.Time, took, deadline time.Duration) time.Duration {
	lost := l.between(began, began.Add(took))
	if lost > 0 {
		lost += deadline/2 + 400*time.Millisecond
	}
	return max(0, took-lost)
}
