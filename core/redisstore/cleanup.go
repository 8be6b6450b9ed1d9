package redisstore

// Removes the holds of granted requests in the background.

import (
	"context"
	"slices"
	"sync"
)

const (
	// maxCleanups bounds the jobs that wait. The holds of further ones expire.
	maxCleanups = 4096

	// cleanupsAtOnce bounds what one round trip removes, and so how long it keeps a
	// server busy.
	cleanupsAtOnce = 32
)

// cleanup is jobs that remove holds. One goroutine at a time runs them, one round
// trip after the other. When none wait, none runs.
type cleanup struct {
	mu      sync.Mutex
	queue   []*job          // guarded by mu
	running bool            // guarded by mu
	added   int64           // jobs ever added. Guarded by mu.
	removed int64           // of these. Guarded by mu.
	waiters []cleanupWaiter // guarded by mu

	around func(remove func()) // calls what runs the jobs, unless it is nil; set by tests
}

// cleanupWaiter is a request that waits until this many jobs are done.
type cleanupWaiter struct {
	removed int64
	done    chan struct{}
}

// add has a job run that removes holds. The job is not the caller's any more.
func (c *cleanup) add(s *Store, j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == maxCleanups {
		j.release()
		return
	}
	c.queue = append(c.queue, j)
	c.added++
	if !c.running {
		c.running = true
		go c.run(s)
	}
}

// wait waits until all jobs that were added are done, but no longer than the context.
// It reports whether there were any.
func (c *cleanup) wait(ctx context.Context) bool {
	c.mu.Lock()
	if c.removed == c.added {
		c.mu.Unlock()
		return false
	}
	w := cleanupWaiter{c.added, make(chan struct{})}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	return true
}

// run runs jobs until none wait.
func (c *cleanup) run(s *Store) {
	var js []*job
	for {
		if js = c.next(js); len(js) == 0 {
			return
		}
		if c.around != nil {
			c.around(func() { s.runInBackground(js) })
		} else {
			s.runInBackground(js) // if it fails, the holds expire
		}
	}
}

// next notes that jobs are done, wakes the requests that wait for them, and returns the
// next jobs, in the same array. If it returns none, the goroutine has to end.
func (c *cleanup) next(js []*job) []*job {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed += int64(len(js))
	c.waiters = slices.DeleteFunc(c.waiters, func(w cleanupWaiter) bool {
		if w.removed > c.removed {
			return false
		}
		close(w.done)
		return true
	})
	n := min(len(c.queue), cleanupsAtOnce)
	js = append(js[:0], c.queue[:n]...)
	c.queue = slices.Delete(c.queue, 0, n)
	c.running = n > 0
	return js
}
