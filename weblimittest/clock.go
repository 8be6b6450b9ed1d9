package weblimittest

import (
	"sync"
	"time"
)

// epoch is when the clock of a new store begins: the time at which a bubble of testing/synctest
// begins, too. Windows of a minute, an hour, a day or a month begin there.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// loaded is read outside of any bubble.
var loaded = time.Now()

// inBubble reports whether the caller is in a bubble of testing/synctest, where it is the year
// 2000. Package synctest has no function that says so.
func inBubble() bool { return time.Now().Unix() < loaded.Add(-365*24*time.Hour).Unix() }

// clock stands still until it is moved. In a bubble it is the bubble's clock.
type clock struct {
	bubble bool

	mu  sync.Mutex
	set int64 // microseconds since the epoch. Guarded by mu.
}

func newClock() *clock { return &clock{bubble: inBubble(), set: epoch.UnixMicro()} }

// micros returns the time in microseconds since the epoch.
func (c *clock) micros() int64 {
	if c.bubble {
		return time.Now().UnixMicro()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set
}

func (c *clock) advance(d time.Duration) {
	if c.bubble {
		time.Sleep(d)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set += d.Microseconds()
}
