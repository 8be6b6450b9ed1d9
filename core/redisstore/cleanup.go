package redisstore

import (
	"context"
	"slices"
	"sync"
)

const (
	// maxClearing bounds the holds that wait to be cleared. Those beyond end by
	// themselves.
	maxClearing = 4096

	// clearedAtOnce bounds what one round trip clears, and so how long it holds a
	// server.
	clearedAtOnce = 32
)

// clearing is holds that are cleared in the background, one round trip at a time.
// When there are none, nothing runs.
type clearing struct {
	mu      sync.Mutex
	waiting []*part // guarded by mu
	running bool    // guarded by mu
	added   int64   // parts ever. Guarded by mu.
	cleared int64   // of these. Guarded by mu.
	awaited []await // guarded by mu
}

// await is somebody who waits until so many parts are cleared.
type await struct {
	cleared int64
	done    chan struct{}
}

// add has a part decided that clears holds.
func (c *clearing) add(s *Store, p *part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == maxClearing {
		p.release()
		return
	}
	c.waiting = append(c.waiting, p)
	c.added++
	if !c.running {
		c.running = true
		go c.run(s)
	}
}

// wait waits until all is cleared that has been added, but no longer than the
// context. It reports whether there was anything.
func (c *clearing) wait(ctx context.Context) bool {
	c.mu.Lock()
	if c.cleared == c.added {
		c.mu.Unlock()
		return false
	}
	a := await{c.added, make(chan struct{})}
	c.awaited = append(c.awaited, a)
	c.mu.Unlock()
	select {
	case <-a.done:
	case <-ctx.Done():
	}
	return true
}

func (c *clearing) run(s *Store) {
	var ps []*part
	for {
		if ps = c.next(ps); len(ps) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), returnTimeout)
		_ = s.run(ctx, ps) // or the holds end by themselves
		cancel()
		release(ps)
	}
}

// next takes the parts of the next round trip, when those of the last one have
// come back.
func (c *clearing) next(done []*part) []*part {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleared += int64(len(done))
	c.awaited = slices.DeleteFunc(c.awaited, func(a await) bool {
		if a.cleared > c.cleared {
			return false
		}
		close(a.done)
		return true
	})
	n := min(len(c.waiting), clearedAtOnce)
	done = append(done[:0], c.waiting[:n]...)
	c.waiting = slices.Delete(c.waiting, 0, n)
	c.running = n > 0
	return done
}
